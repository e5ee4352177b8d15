"""What AC Figure 2 must show, and known values of its ends."""

import itertools

import numpy as np
import xarray

from experiments.harness import Check

# The mean's bias was measured as .07/d to .107/d at R(0) = .5.
_SIGMAS, _BIAS = 5, 0.15
_ROUNDING = 2e-4  # of a float32 prediction, relative
# Released risk, and its standard error, of an independent NumPy transcription of Algorithm 1.
_TRANSCRIBED = {
    (0.0, 1, 10): (0.19283, 0.00136),
    (0.0, 1, 100): (0.19411, 0.00107),
    (0.0, 1, 1000): (0.19190, 0.00150),
    (0.0, 2, 10): (0.19331, 0.00141),
    (0.0, 2, 100): (0.19196, 0.00109),
    (0.0, 2, 1000): (0.19318, 0.00140),
    (0.5, 1, 10): (0.10636, 0.00082),
    (0.5, 1, 100): (0.09850, 0.00061),
    (0.5, 1, 1000): (0.09648, 0.00080),
    (0.5, 2, 10): (0.10542, 0.00081),
    (0.5, 2, 100): (0.09803, 0.00059),
    (0.5, 2, 1000): (0.09824, 0.00076),
}
# Released risk of the coupled ODE from an independent solver, at d = 1000.
_SOLVED = {(0.0, 1): 0.19224, (0.0, 2): 0.19246, (0.5, 1): 0.09721, (0.5, 2): 0.09742}


def checks(dataset: xarray.Dataset) -> list[Check]:
    """What theory says of these curves, and known values of their ends."""
    return [
        *_agreement(dataset),
        _bias_falls(dataset),
        _band_falls(dataset),
        *_ordering(dataset),
        *_noise_jump(dataset),
        *_known_ends(dataset),
    ]


def _agreement(dataset: xarray.Dataset) -> list[Check]:
    found = []
    for dim in dataset.dim.values:
        at = dataset.sel(dim=dim)
        gaps, shares = [], []
        for kind in ("", "final_"):
            gap = abs(at[kind + "mean"] - at[kind + "predicted"])
            allowed = _SIGMAS * at[kind + "standard_error"] + _BIAS / dim
            gaps.append(float(gap.max()))
            shares.append(float((gap / allowed).max()))
        found.append(
            Check(
                f"d = {dim}: the mean is within 5 standard errors + .15/d of the ODE at every "
                "record and when released",
                f"largest gap {max(gaps):.5f}, {max(shares):.0%} of what is allowed",
                max(shares) < 1,
            )
        )
    return found


def _bias_falls(dataset: xarray.Dataset) -> Check:
    gaps = abs(dataset["mean"] - dataset.predicted).max("time")
    first, last = gaps.isel(dim=0), gaps.isel(dim=-1)
    texts = " to ".join(f"{float(gaps.sel(dim=dim).max()):.5f}" for dim in dataset.dim)
    dims = dataset.dim.values
    return Check(
        f"the mean's largest gap at d = {dims[-1]} is below half that at d = {dims[0]}",
        f"{texts}, worst panel",
        bool((last < first / 2).all()),
    )


def _band_falls(dataset: xarray.Dataset) -> Check:
    scaled = dataset.final_std * dataset.dim**0.5
    spread = scaled / scaled.mean("dim") - 1
    return Check(
        "the released risk's standard deviation falls like 1/sqrt(d), within 25%",
        f"times sqrt(d) it varies by {float(abs(spread).max()):.0%}",
        bool((abs(spread) < 0.25).all()),
    )


def _ordering(dataset: xarray.Dataset) -> list[Check]:
    """Source: AC (42) and (65). Five curves that are equal where the data are isotropic."""
    ode = dataset.predicted.isel(dim=-1)
    bounds = [dataset.bounds.sel(bound=name) for name in dataset.bound]
    curves = [*bounds[:2], ode, *bounds[2:]]
    isotropic = dataset.condition_number == 1
    found = []
    if not isotropic.all():
        steps = [
            ((high - low) / ode).sel(condition_number=~isotropic)
            for low, high in itertools.pairwise(curves)
        ]
        least = min(float(step.min()) for step in steps)
        widest = max(float(step.max()) for step in steps)
        found.append(
            Check(
                "lower <= tight lower <= ODE <= tight upper <= upper, not all equal",
                f"neighbours {least:.0e} (rounding, at t = 0) to {widest:.2f} of the ODE apart",
                least >= -_ROUNDING and widest > 0.1,
            )
        )
    if isotropic.any():
        distance = max(
            float(abs(curve / ode - 1).sel(condition_number=isotropic).max()) for curve in curves
        )
        found.append(
            Check(
                "isotropic: all five coincide",
                f"to {distance:.1e} relative",
                distance < _ROUNDING,
            )
        )
    return found


def _noise_jump(dataset: xarray.Dataset) -> list[Check]:
    """Source: AC Proposition 5: the last step's noise adds 2 (c eta~(1) gamma / rho)^2."""
    if 0.0 not in dataset.power:
        return []
    at, expected = dataset.sel(power=0.0), float(dataset.noise_jump)
    sigmas = float((abs(at.jump_mean - expected) / at.jump_standard_error).max())
    error = float(abs(at.jump_predicted - expected).max())
    seen = at.jump_mean.values
    return [
        Check(
            f"output perturbation: the last noise adds {expected:.3g}, predicted and simulated",
            f"simulated {seen.min():.4f} to {seen.max():.4f} (at most {sigmas:.1f} standard "
            f"errors off), predicted to {error:.0e}",
            sigmas < _SIGMAS and error < 1e-4,
        )
    ]


def _known_ends(dataset: xarray.Dataset) -> list[Check]:
    sigmas, errors, solved = [], [], []
    for cell in itertools.product(dataset.power, dataset.condition_number, dataset.dim):
        power, kappa, dim = (value.item() for value in cell)
        at = dataset.sel(power=power, condition_number=kappa, dim=dim)
        mean, error = _TRANSCRIBED[power, kappa, dim]
        sigmas.append(abs(at.final_mean.item() - mean) / np.hypot(at.final_standard_error, error))
        # The isotropic ODE does not depend on d.
        if dim == 1000 or kappa == 1:
            errors.append(abs(at.final_predicted.item() - _SOLVED[power, kappa]))
            solved.append(at.final_predicted.item())
    found = [
        Check(
            "released risks agree within 5 standard errors with an independent NumPy "
            "transcription of Algorithm 1",
            f"at most {max(sigmas):.1f} standard errors apart",
            bool(max(sigmas) < _SIGMAS),
        )
    ]
    if solved:
        known = ", ".join(f"{value:.5f}" for value in sorted(set(_SOLVED.values())))
        text = ", ".join(f"{value:.5f}" for value in sorted({round(v, 5) for v in solved}))
        found.append(Check(f"the ODE's released risks are {known}", text, max(errors) < 2e-5))
    return found

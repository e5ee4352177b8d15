"""Does theory agree with what happens? A table, and the largest gaps."""

import dataclasses
import warnings

import jax.numpy as jnp
import numpy as np

from jaxdp.core.checks import require_host, require_kind
from jaxdp.core.trajectory import Status, Trajectory

# Of the whole time.
_SHOWN_TIMES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
# Beyond it a theory of the unclipped process does not describe a clipped one.
_LIKELY_EXIT = 0.01
# Beyond this ratio two risks at the start, less five standard errors, are not of one problem. A
# table's surrogate starts about zeta^2 d / (2 n) above the table.
_LARGEST_RATIO, _SIGMAS = 1.5, 5.0


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The simulation's mean risk beside predictions, on one clock.

    Gaps are of the first prediction; a sigma is the simulation's standard error (ddof 1), and
    records without one (the start, or a single run) do not count.

    Attributes:
        time: of each record.
        mean, standard_error: of the simulated risk over the runs that ended well.
        final_mean, final_standard_error: of the released iterate's risk.
        std, final_std: standard deviations over those runs (ddof 1), which predictions with a
            `std` predict; NaN of a single run.
        predictions: the predicted trajectories.
        num_runs, num_failed: runs in all, and those left out because they did not end well.
        max_gap: largest |mean - prediction| over the records.
        max_sigmas: the same in standard errors; NaN when no record has one.
        final_gap, final_sigmas: of the released iterate.

    Example:
        >>> import jaxdp, numpy as np
        >>> times, risks = np.array([0.0, 0.5, 1.0]), np.array([[0.5, 0.2, 0.12], [0.5, 0.3, 0.08]])
        >>> runs = jaxdp.Trajectory(times, risks, risks[:, -1], np.zeros(2, int), {})
        >>> mean = jaxdp.Trajectory(times, risks.mean(0), np.array(0.15), np.array(0), {})
        >>> compared = jaxdp.compare(runs, mean)
        >>> print(f"mean {compared.final_mean:.2f}, gap {compared.final_gap:.2f}")
        mean 0.10, gap 0.05
    """

    time: np.ndarray
    mean: np.ndarray
    standard_error: np.ndarray
    final_mean: float
    final_standard_error: float
    std: np.ndarray
    final_std: float
    predictions: tuple[Trajectory, ...]
    num_runs: int
    num_failed: int
    max_gap: float
    max_sigmas: float
    final_gap: float
    final_sigmas: float

    def __str__(self):
        labels = [prediction.label or "predicted" for prediction in self.predictions]
        spreading = [each for each in self.predictions if each.std is not None]
        stds = [np.asarray(each.std, np.float64) for each in spreading]
        head = ["time", "simulated", "s.e.", *labels, "gap", "sigmas"]
        if spreading:
            head += ["s.d.", *(f"{each.label or 'predicted'} s.d." for each in spreading)]
        ends = self.time[-1]
        shown = sorted({int(np.argmin(np.abs(self.time - time * ends))) for time in _SHOWN_TIMES})
        digits = max(3, 2 - int(np.floor(np.log10(ends)))) if ends > 0 else 3
        rows = [
            _row(
                f"{self.time[j]:.{digits}f}",
                self.mean[j],
                self.standard_error[j],
                [float(prediction.risk[j]) for prediction in self.predictions],
            )
            + _spreads(self.std[j], [float(std[j]) for std in stds])
            for j in shown
        ]
        finals = [float(prediction.final_risk) for prediction in self.predictions]
        final_spreads = [_final_std(each) for each in spreading]
        rows.append(
            _row("final", self.final_mean, self.final_standard_error, finals)
            + _spreads(self.final_std, final_spreads)
        )
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        lines = [
            "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in [head, *rows]
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        lines.append(
            f"{self.num_runs - self.num_failed} runs; largest gap {self.max_gap:.2e}"
            f"{_in_sigmas(self.max_sigmas)}, final gap {self.final_gap:.2e}"
            f"{_in_sigmas(self.final_sigmas)}"
        )
        lines += [self._spread_line(each) for each in spreading]
        if self.num_failed:
            lines.append(
                f"{self.num_failed} of {self.num_runs} runs did not end well and are left out"
            )
        lines += _exit_lines(self.predictions)
        # Ends its line, so that what is printed after it begins a new one.
        return "\n".join(lines) + "\n"

    def _spread_line(self, prediction: Trajectory) -> str:
        """How the simulated spread compares with a prediction's."""
        predicted = np.asarray(prediction.std, np.float64)
        # Where all runs agree, at the start, there is nothing to compare.
        known = (self.standard_error > 0) & (predicted > 0)
        name = prediction.label or "predicted"
        if not known.any():
            return f"{name}: a standard deviation over runs needs two runs or more"
        ratios = (self.std[known] / predicted[known]).tolist()
        final = self.final_std / _final_std(prediction)
        # Of a Gaussian's; a spread's own sampling error.
        error = 1 / np.sqrt(2 * (self.num_runs - self.num_failed - 1))
        return (
            f"standard deviation over runs, simulated over {name}: {min(ratios):.3f} to "
            f"{max(ratios):.3f}, final {final:.3f} (each +- {error:.3f} by sampling)"
        )


def compare(simulated: Trajectory, *predictions: Trajectory) -> Comparison:
    """Put simulated runs beside predictions.

    Where a prediction has a `std`, the table has the simulated standard deviation over runs beside
    the predicted one.

    Args:
        simulated: a trajectory with one axis of runs.
        predictions: trajectories of single predictions; the first is the one gaps are taken of.

    Returns:
        Means, gaps and standard errors; `print` shows them as a table.

    Warns:
        UserWarning: a prediction of the unclipped process, whose paths are clipped with a
            probability above .01; or one that starts from another risk than the runs, by half
            or more, as that of another problem does. Trajectories do not know their problem:
            another one with the same risk at the start is not noticed.

    Raises:
        TypeError: something is no trajectory.
        ValueError: no prediction, unequal clocks, batches where single trajectories are meant, or
            no run that ended well.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, power=0.5), 1.0, 1.0, 1000)
        >>> runs = jaxdp.simulate(problem, algorithm, num_runs=10, key=jax.random.key(0))
        >>> compared = jaxdp.compare(runs, jaxdp.predict(problem, algorithm))
        >>> bool(compared.final_gap < 0.01)
        True
    """
    named = {f"predictions[{place}]": one for place, one in enumerate(predictions)}
    for name, trajectory in {"simulated": simulated, **named}.items():
        require_kind(name, trajectory, Trajectory, "a trajectory, of simulate or predict")
        require_host(name, trajectory)
    if not predictions:
        raise ValueError("expected at least one prediction to compare with, got none")
    if simulated.risk.ndim != 2:
        raise ValueError(
            f"expected simulated runs of shape (runs, records), got risk of shape "
            f"{simulated.risk.shape}"
        )
    time = np.asarray(simulated.time, np.float64)
    for prediction in predictions:
        # Whether one that is not to be trusted is right is what a comparison tells.
        if not np.isin(np.asarray(prediction.status), (Status.OK, Status.UNSTABLE)).all():
            ended = Status(int(np.ravel(prediction.status).max())).name.lower().replace("_", " ")
            raise ValueError(
                f"expected a prediction that ended well, got {ended}: {prediction.label}"
            )
        if prediction.risk.shape != time.shape:
            raise ValueError(
                f"expected predictions of risk shape {time.shape} like the simulation's records, "
                f"got {prediction.risk.shape} from {prediction.label!r}"
            )
        if not np.allclose(prediction.time, time, rtol=0, atol=1e-5 * max(time[-1], 1e-30)):
            raise ValueError(
                f"expected one clock, got other times from {prediction.label!r}: simulate and "
                "predict the same algorithm with the same number of records"
            )
    for line in _exit_lines(predictions):
        warnings.warn(line, UserWarning, stacklevel=2)
    well = np.asarray(simulated.status) == Status.OK
    if not well.any():
        raise ValueError("expected at least one run that ended well; all of them failed")
    mean, error = _mean_and_error(np.asarray(simulated.risk)[well])
    final_mean, final_error = _mean_and_error(np.asarray(simulated.final_risk)[well])
    for prediction in predictions:
        start = float(prediction.risk[0])
        if _are_apart(mean[0], error[0], start):
            warnings.warn(
                f"the runs start at risk {mean[0]:.4g}, and {prediction.label or 'a prediction'} "
                f"at {start:.4g}: are they of one problem?",
                UserWarning,
                stacklevel=2,
            )
    gap = np.abs(mean - np.asarray(predictions[0].risk, np.float64))
    final_gap = abs(final_mean - float(predictions[0].final_risk))
    known = error > 0
    return Comparison(
        time=time,
        mean=mean,
        standard_error=error,
        final_mean=float(final_mean),
        final_standard_error=float(final_error),
        std=error * np.sqrt(well.sum()),
        final_std=float(final_error * np.sqrt(well.sum())),
        predictions=predictions,
        num_runs=well.size,
        num_failed=int((~well).sum()),
        max_gap=float(gap.max()),
        max_sigmas=float((gap[known] / error[known]).max()) if known.any() else float("nan"),
        final_gap=float(final_gap),
        final_sigmas=float(final_gap / final_error) if final_error > 0 else float("nan"),
    )


def _are_apart(mean: float, error: float, start: float) -> bool:
    """Whether two risks at the start are too far apart for one problem."""
    low, high = sorted((mean, start))
    return high - _SIGMAS * np.nan_to_num(error) > _LARGEST_RATIO * low


def _exit_lines(predictions: tuple[Trajectory, ...]) -> list[str]:
    """What to say of predictions of the unclipped process where clipping is likely."""
    lines = []
    for prediction in predictions:
        exits = prediction.observables.get("exit_probability")
        if exits is not None and float(exits[-1]) > _LIKELY_EXIT:
            lines.append(
                f"{prediction.label or 'a prediction'} leaves clipping out, and a path is clipped "
                f"with probability {float(exits[-1]):.2g} (PF (6.2)); GaussianClosure() includes it"
            )
    return lines


def average(runs: Trajectory) -> Trajectory:
    """The mean of the runs that ended well, as one trajectory beside predictions.

    Raises:
        ValueError: there is no axis of runs, or none of them ended well.
    """
    require_kind("runs", runs, Trajectory, "a trajectory, of simulate")
    require_host("runs", runs)
    if runs.risk.ndim != 2:
        raise ValueError(f"expected runs of shape (runs, records), got {runs.risk.shape}")
    well = np.asarray(runs.status) == Status.OK
    if not well.any():
        raise ValueError("expected at least one run that ended well; all of them failed")
    return Trajectory(
        time=runs.time,
        risk=runs.risk[well].mean(axis=0),
        final_risk=runs.final_risk[well].mean(),
        status=jnp.asarray(int(Status.OK)),
        observables={name: values[well].mean(axis=0) for name, values in runs.observables.items()},
        label=runs.label,
    )


def _mean_and_error(runs):
    """Mean and standard error over the leading axis; the error of a single run is NaN.

    Runs that agree to rounding have no error: their spread is rounding, not sampling.
    """
    rounding = 4 * np.finfo(runs.dtype).eps
    runs = runs.astype(np.float64)
    mean = runs.mean(axis=0)
    if len(runs) == 1:
        return mean, np.full_like(mean, np.nan)
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    return mean, np.where(error > rounding * np.abs(mean), error, 0.0)


def _row(name, mean, error, predicted):
    gap = abs(mean - predicted[0])
    sigmas = f"{gap / error:.1f}" if error > 0 else "-"
    numbers = [f"{mean:.5f}", f"{error:.5f}" if error > 0 else "-"]
    return [name, *numbers, *(f"{value:.5f}" for value in predicted), f"{gap:.5f}", sigmas]


def _spreads(simulated: float, predicted: list[float]) -> list[str]:
    """Standard deviations in a row of the table; of no prediction none."""
    shown = [f"{simulated:.5f}" if np.isfinite(simulated) else "-"]
    return [*shown, *(f"{each:.5f}" for each in predicted)] if predicted else []


def _final_std(prediction: Trajectory) -> float:
    """Of the released iterate's risk; the last one where nothing else is said."""
    assert prediction.std is not None
    return float(prediction.std[-1] if prediction.final_std is None else prediction.final_std)


def _in_sigmas(sigmas):
    return "" if np.isnan(sigmas) else f" ({sigmas:.1f} standard errors)"

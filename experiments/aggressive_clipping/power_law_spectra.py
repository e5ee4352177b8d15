r"""Beyond AC: how the risk falls with gamma and rho where eigenvalues and target are power laws.

Eigenvalues $\lambda_i \propto i^{-a}$ of mean 1 and a target $\theta^*_i \propto i^{-b}$ of R(0) =
1/2, at a fixed dimension. Clip scale, peak and knee of hyperbolic rates are tuned for every gamma =
d/n and rho on the coupled equations. The paper's second version (arXiv 2505.16329v2) states a risk
of $O(\gamma + \gamma^2/\rho^2)$, and that it is minimax optimal: exponents 1 in gamma for what is
paid without privacy, and 2 and -2 in gamma and rho for what privacy adds where it is small beside
R(0).
"""

import dataclasses
import functools
import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import xarray
from matplotlib.figure import Figure

import jaxdp
from experiments import harness
from experiments.aggressive_clipping.power_law_checks import checks as checks
from experiments.aggressive_clipping.power_law_checks import summary as summary
from experiments.harness import over_runs
from experiments.harness.drawing import BLACK, BLUE, GREEN, ORANGE, PURPLE, tidy

_COLORS = ORANGE, BLUE, GREEN, PURPLE
_LABEL_NOISE = 0.3
_TUNED = "clip_scale", "product", "knee"
# Steps of the search in the logarithms of these: c, c times the peak, and the knee.
_PATTERN = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=3)))
_FIRST_STEP, _SHRINK = np.log(3.0), 0.55
# Times 1/gamma; the cap is at 2.
_HIGHEST_PEAK = 2.5


@dataclasses.dataclass(frozen=True)
class Config:
    """Spectra as (a, b), and the grid of gamma and rho, whose last is infinite: no privacy."""

    spectra: tuple[tuple[float, float], ...] = ((0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (1.0, 1.0))
    gammas: tuple[float, ...] = (0.1, 0.03, 0.01, 0.003)
    rhos: tuple[float, ...] = (1.0, 3.0, 10.0, float("inf"))
    dim: int = 1000
    num_blocks: int = 16
    num_rounds: int = 18
    simulated_gammas: tuple[float, ...] = (0.1, 0.01)
    num_runs: int = 20
    seed: int = 18

    smoke = harness.size(
        spectra=((0.0, 0.0), (1.0, 0.0)),
        gammas=(0.01, 0.003),
        rhos=(1.0, 3.0, float("inf")),
        dim=100,
        num_blocks=6,
        num_rounds=10,
        simulated_gammas=(0.01,),
        num_runs=10,
    )


def power_law(dim: int, num_blocks: int, decay: float, source: float) -> jaxdp.LinearRegression:
    """Eigenvalues i^-a, averaged within blocks whose ends grow by one factor, and target i^-b."""
    ends = np.unique(np.rint(np.geomspace(1, dim + 1, num_blocks + 1)).astype(int)) - 1
    ranks = np.arange(1, dim + 1.0)
    powers, target = ranks**-decay, ranks**-source
    sizes = np.diff(ends)
    starts = ends[:-1]
    spectrum = np.repeat(np.add.reduceat(powers, starts) / sizes, sizes)
    # Within a block only the target's length counts.
    lengths = np.sqrt(np.add.reduceat(target**2, starts) / sizes)
    spectrum /= spectrum.mean()
    target = np.repeat(lengths, sizes)
    target /= np.sqrt(np.sum(spectrum * target**2))
    return jaxdp.LinearRegression(spectrum, target, _LABEL_NOISE)


def run(config: Config) -> xarray.Dataset:
    """Tune every cell of every spectrum, and simulate the tuned algorithms of some of them."""
    gamma, rho = (part.ravel() for part in np.meshgrid(config.gammas, config.rhos, indexing="ij"))
    shape = len(config.gammas), len(config.rhos)
    key, parts = jr.key(config.seed), []
    for number, (decay, source) in enumerate(harness.track(config.spectra, str)):
        with jax.enable_x64():
            problem = power_law(config.dim, config.num_blocks, decay, source)
            logs, risk = _tuned(problem, gamma, rho, config.num_rounds)
        found = {"risk": risk, **dict(zip(_TUNED, np.exp(logs.T), strict=True))}
        cells = {name: values.reshape(shape) for name, values in found.items()}
        cells |= _simulated(config, decay, source, cells, jr.fold_in(key, number))
        parts.append(harness.dataset({}, {("gamma", "rho"): cells}))
    names = [f"a = {decay:g}, b = {source:g}" for decay, source in config.spectra]
    whole = xarray.concat(parts, xarray.IndexVariable("spectrum", names))
    return whole.assign_coords(gamma=list(config.gammas), rho=list(config.rhos)).assign_attrs(
        dim=config.dim
    )


def plot(dataset: xarray.Dataset) -> Figure:
    """Risk over gamma without privacy, and what privacy adds over gamma^2/rho^2."""
    figure = Figure(figsize=(8.8, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    public = dataset.risk.isel(rho=-1)
    for name, color in zip(dataset.spectrum.values, itertools.cycle(_COLORS)):
        at = public.sel(spectrum=name)
        style: dict[str, Any] = {"color": color, "marker": "o", "markersize": 3.5, "linewidth": 1.2}
        left.plot(at.gamma, at / at.gamma, label=str(name), **style)
        for rho in dataset.rho.values[:-1]:
            added = dataset.risk.sel(spectrum=name, rho=rho) - at
            paid = (at.gamma / rho) ** 2
            right.plot(paid, added, **style)
    ends = np.array(right.get_xlim())
    right.plot(ends, ends, color=BLACK, linewidth=0.9, linestyle="--", label=r"$\gamma^2/\rho^2$")
    for axes, title in ((left, r"$\rho = \infty$: $R/\gamma$"), (right, "what privacy adds")):
        axes.set(xscale="log", yscale="log")
        tidy(axes, title)
    left.set_xlabel(r"$\gamma = d/n$")
    right.set_xlabel(r"$\gamma^2/\rho^2$")
    right.set_ylabel(r"$R(\rho) - R(\infty)$")
    left.legend(frameon=False, fontsize="small")
    right.legend(frameon=False, fontsize="small")
    return figure


def _tuned(problem, gamma, rho, num_rounds: int):
    """Logarithms of (c, c peak, knee) of least predicted risk, by pattern search, and the risk."""
    logs = np.log(np.tile([[0.3, 3.0, 0.1]], (len(gamma), 1)))
    steps = np.full(len(gamma), _FIRST_STEP)
    highest = np.log(_HIGHEST_PEAK / gamma)
    num_steps = np.rint(problem.dim / gamma).astype(np.int64)
    for _ in range(num_rounds):
        tried = logs[:, None] + steps[:, None, None] * _PATTERN
        # A little beyond the cap there is only noise, and stiff equations.
        tried[..., 1] = np.minimum(tried[..., 1], tried[..., 0] + highest[:, None])
        flat = [np.repeat(part, len(_PATTERN)) for part in (num_steps, rho)]
        risks = _final(problem, *map(jnp.asarray, (tried.reshape(-1, 3), *flat)))
        risks = np.where(np.isfinite(risks), risks, np.inf).reshape(tried.shape[:2])
        best = risks.argmin(axis=1)
        logs = tried[np.arange(len(gamma)), best]
        steps = np.where(best == len(_PATTERN) // 2, _SHRINK * steps, steps)
    return logs, risks.min(axis=1)


def _algorithm(logs, num_steps, rho):
    scale, product, knee = jnp.exp(logs)
    return jaxdp.OnePassDPSGD(jaxdp.Hyperbolic(product / scale, knee), scale, rho, num_steps)


@eqx.filter_jit
@functools.partial(jax.vmap, in_axes=(None, 0, 0, 0))
def _final(problem, logs, num_steps, rho):
    return jaxdp.predict(problem, _algorithm(logs, num_steps, rho), records=1).final_risk


def _simulated(config: Config, decay, source, cells, key) -> dict[str, np.ndarray]:
    """Mean released risks and their standard errors, NaN where nothing was simulated."""
    problem = power_law(config.dim, config.num_blocks, decay, source)
    mean, error = np.full((2, *cells["risk"].shape), np.nan)
    for gamma, rho in itertools.product(config.simulated_gammas, range(len(config.rhos))):
        place = config.gammas.index(gamma), rho
        logs = np.log([cells[name][place] for name in _TUNED])
        algorithm = _algorithm(jnp.asarray(logs), round(config.dim / gamma), config.rhos[rho])
        runs = jaxdp.simulate(
            problem,
            algorithm,
            key=key,
            num_runs=config.num_runs,
            simulator=jaxdp.Reduced(),
            records=1,
        )
        found = over_runs(runs.check().final_risk)
        mean[place], error[place] = found["mean"], found["standard_error"]
    return {"simulated": mean, "simulated_error": error}


claims = harness.claims_of(checks)
harness.main(__name__)

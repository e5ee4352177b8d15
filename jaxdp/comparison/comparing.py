"""The comparison of simulated runs with predictions: numbers, a table and a picture."""

import base64
import dataclasses
import html
import io
import itertools
import warnings
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxdp.comparison.picture import plot_comparison
from jaxdp.comparison.table import (
    Column,
    as_html,
    as_text,
    coincidences,
    coinciding,
    name_of,
    unbroken,
    wrapped,
)
from jaxdp.core.arrays import in_jax
from jaxdp.core.checks import require_host, require_kind
from jaxdp.core.trajectory import Status, Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

# Fractions of the whole time.
_SHOWN_TIMES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
# Above this probability a theory without clipping is not valid.
_LIKELY_EXIT = 0.01
# Largest ratio of initial risks of one problem, less five standard errors. (A table's surrogate
# starts about zeta^2 d / (2 n) above the table.)
_LARGEST_RATIO, _SIGMAS = 1.5, 5.0


@dataclasses.dataclass(frozen=True, repr=False)
class Comparison:
    """The mean risk of simulated runs compared with predictions, at the same times.

    Gaps refer to the first prediction. A sigma is the simulation's standard error (ddof 1); records
    without one (the start, or a single run) do not count. The table omits predictions that agree
    with an earlier one to 1e-4, and names them.

    Attributes:
        simulated: the runs.
        time: time of each record.
        mean, standard_error: mean of the risk over the runs that ended well, at each record, and
            its standard error.
        final_mean, final_standard_error: the same for the release.
        std, final_std: standard deviations over those runs (ddof 1), which the `std` of a
            prediction predicts; NaN for a single run.
        predictions: the predicted trajectories.
        num_runs, num_failed: number of all runs, and of those that did not end well and are left
            out.
        max_gap: largest |mean - prediction| over the records.
        max_sigmas: largest gap in standard errors; NaN if no record has one.
        final_gap, final_sigmas: the gap at the release, and in standard errors.

    Example:
        >>> import jaxdp, numpy as np
        >>> times, risks = np.array([0.0, 0.5, 1.0]), np.array([[0.5, 0.2, 0.12], [0.5, 0.3, 0.08]])
        >>> runs = jaxdp.Trajectory(times, risks, risks[:, -1], np.zeros(2, int), {})
        >>> mean = jaxdp.Trajectory(times, risks.mean(0), np.array(0.15), np.array(0), {})
        >>> compared = jaxdp.compare(runs, mean)
        >>> print(f"mean {compared.final_mean:.2f}, gap {compared.final_gap:.2f}")
        mean 0.10, gap 0.05
    """

    simulated: Trajectory
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
        # The final line break separates it from later output.
        sentences = itertools.chain.from_iterable(map(wrapped, self._sentences()))
        return "\n".join([*as_text(*self._columns()), *sentences]) + "\n"

    def __repr__(self):
        return str(self)

    def _repr_html_(self) -> str:
        sentences = "".join(f"<div>{html.escape(each)}</div>" for each in self._sentences())
        return f"<div>{as_html(*self._columns())}{sentences}{self._drawn()}</div>"

    def plot(self, *, title: str = "", ax: Any = None) -> "Figure | SubFigure":
        """Draw the picture of `jaxdp.plots.plot_comparison`.

        Args:
            title, ax: see `jaxdp.plots.plot_comparison`.
        """
        return plot_comparison(self.simulated, *self.predictions, title=title, ax=ax)

    def _drawn(self) -> str:
        """The picture in HTML, or the advice to install matplotlib."""
        drawn = io.BytesIO()
        try:
            figure: Any = self.plot()
            figure.savefig(drawn, format="png", dpi=100)
        except ModuleNotFoundError as error:
            return f"<div>{html.escape(str(error))}</div>"
        picture = base64.b64encode(drawn.getvalue()).decode()
        return f'<img alt="risk over time" src="data:image/png;base64,{picture}">'

    def _columns(self) -> tuple[Column, list[list[Column]]]:
        """The column of times, and groups of other columns that stay together."""
        ends = self.time[-1]
        shown = sorted({int(np.argmin(np.abs(self.time - time * ends))) for time in _SHOWN_TIMES})
        digits = max(3, 2 - int(np.floor(np.log10(ends)))) if ends > 0 else 3
        means = [*self.mean[shown], self.final_mean]
        errors = [*self.standard_error[shown], self.final_standard_error]
        first = _at(self.predictions[0], shown)
        gaps = [abs(mean - risk) for mean, risk in zip(means, first, strict=True)]
        sigmas = [
            f"{gap / error:.1f}" if error > 0 else "-"
            for gap, error in zip(gaps, errors, strict=True)
        ]
        groups = [
            [
                Column("simulated", [f"{mean:.5f}" for mean in means]),
                Column("s.e.", [f"{error:.5f}" if error > 0 else "-" for error in errors]),
            ],
            *(
                [Column(name_of(each), [f"{risk:.5f}" for risk in _at(each, shown)])]
                for each, _ in coinciding(self.predictions)
            ),
            [Column("gap", [f"{gap:.5f}" for gap in gaps]), Column("sigmas", sigmas)],
        ]
        spreading = [each for each in self.predictions if each.std is not None]
        if spreading:
            stds = [*self.std[shown], self.final_std]
            texts = [f"{std:.5f}" if np.isfinite(std) else "-" for std in stds]
            groups.append([Column("s.d.", texts)])
            for each in spreading:
                stds = [*np.asarray(each.std, np.float64)[shown], _final_std(each)]
                groups[-1].append(Column(f"{name_of(each)} s.d.", [f"{std:.5f}" for std in stds]))
        times = [*(f"{self.time[place]:.{digits}f}" for place in shown), "final"]
        return Column("time", times), groups

    def _sentences(self) -> list[str]:
        lines = [
            f"{self.num_runs - self.num_failed} runs; largest gap {self.max_gap:.2e}"
            f"{_in_sigmas(self.max_sigmas)}, "
            + unbroken(f"final gap {self.final_gap:.2e}{_in_sigmas(self.final_sigmas)}")
        ]
        lines += coincidences(self.predictions)
        lines += [self._spread_line(each) for each in self.predictions if each.std is not None]
        if self.num_failed:
            lines.append(
                f"{self.num_failed} of {self.num_runs} runs did not end well and are left out"
            )
        return lines + exit_lines(self.predictions)

    def _spread_line(self, prediction: Trajectory) -> str:
        """The ratio of the simulated spread to a prediction's, in words."""
        predicted = np.asarray(prediction.std, np.float64)
        # At the start all runs agree.
        known = (self.standard_error > 0) & (predicted > 0)
        name = name_of(prediction)
        if not known.any():
            return f"{name}: a standard deviation over runs needs two runs or more"
        ratios = (self.std[known] / predicted[known]).tolist()
        final = self.final_std / _final_std(prediction)
        # Sampling error of a Gaussian's standard deviation.
        error = 1 / np.sqrt(2 * (self.num_runs - self.num_failed - 1))
        return (
            f"standard deviation over runs, simulated over {name}: {min(ratios):.3f} to "
            f"{max(ratios):.3f}, final {final:.3f} (each +- {error:.3f} by sampling)"
        )


def compare(simulated: Trajectory, *predictions: Trajectory) -> Comparison:
    """Compare simulated runs with predictions: risks, gaps and standard errors.

    Args:
        simulated: a trajectory with one axis of runs.
        predictions: trajectories of single predictions; gaps refer to the first.

    Returns:
        Means, gaps and standard errors; `print` shows them as a table.

    Warns:
        UserWarning: a prediction without clipping, with a clipping probability above 0.01; or one
            whose initial risk differs from the runs' by half or more, as for another problem.

    Raises:
        ValueError: no prediction, unequal times, batches in place of single trajectories, or no run
            that ended well.

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
    well = _ended_well(simulated)
    time = np.asarray(simulated.time, np.float64)
    for prediction in predictions:
        # Unstable predictions are compared too.
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
    for line in exit_lines(predictions):
        warnings.warn(line, UserWarning, stacklevel=2)
    mean, error = _mean_and_error(np.asarray(simulated.risk)[well])
    final_mean, final_error = _mean_and_error(np.asarray(simulated.final_risk)[well])
    for prediction in predictions:
        start = float(np.asarray(prediction.risk)[0])
        low, high = sorted((mean[0], start))
        if high - _SIGMAS * np.nan_to_num(error[0]) > _LARGEST_RATIO * low:
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
        simulated=simulated,
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


def average(runs: Trajectory) -> Trajectory:
    """The mean of the runs that ended well, as one trajectory.

    Args:
        runs: a trajectory with one axis of runs, as from `jaxdp.simulate`.

    Returns:
        A trajectory without that axis, with the same label.

    Raises:
        ValueError: there is no axis of runs, or no run ended well.

    Example:
        >>> import jaxdp, numpy as np
        >>> from jaxdp.comparison import average
        >>> times, risks = np.array([0.0, 0.5, 1.0]), np.array([[0.5, 0.2, 0.12], [0.5, 0.3, 0.08]])
        >>> runs = jaxdp.Trajectory(times, risks, risks[:, -1], np.zeros(2, int), {})
        >>> [round(float(risk), 3) for risk in average(runs).risk]
        [0.5, 0.25, 0.1]
    """
    require_kind("runs", runs, Trajectory, "a trajectory, of simulate")
    require_host("runs", runs)
    well = _ended_well(runs)
    risk, final_risk, observables = jax.tree.map(
        lambda values: np.asarray(values)[well].mean(axis=0),
        (runs.risk, runs.final_risk, runs.observables),
    )
    return dataclasses.replace(
        runs,
        risk=in_jax(risk),
        final_risk=in_jax(final_risk),
        status=in_jax(np.asarray(int(Status.OK))),
        observables=in_jax(observables),
        std=None,
        final_std=None,
        parameters=None,
    )


def _ended_well(runs: Trajectory) -> np.ndarray:
    if runs.risk.ndim != 2:
        raise ValueError(f"expected simulated runs of shape (runs, records), got {runs.risk.shape}")
    well = np.asarray(runs.status) == Status.OK
    if not well.any():
        raise ValueError("expected at least one run that ended well; all of them failed")
    return well


def _mean_and_error(runs):
    """Mean and standard error over the leading axis: NaN for one run, 0 for equal runs."""
    rounding = 4 * np.finfo(runs.dtype).eps
    runs = runs.astype(np.float64)
    mean = runs.mean(axis=0)
    if len(runs) == 1:
        return mean, np.full_like(mean, np.nan)
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    return mean, np.where(error > rounding * np.abs(mean), error, 0.0)


def exit_lines(predictions: tuple[Trajectory, ...]) -> list[str]:
    """A warning for each prediction that leaves out clipping although it is likely."""
    lines = []
    for prediction in predictions:
        exits = prediction.observables.get("exit_probability")
        if exits is not None and float(exits[-1]) > _LIKELY_EXIT:
            lines.append(
                f"{prediction.label or 'a prediction'} leaves clipping out, and a path is clipped "
                f"with probability {float(exits[-1]):.2g} (PF (6.2)); GaussianClosure() includes it"
            )
    return lines


def _at(prediction: Trajectory, places: list[int]) -> list[float]:
    """The risk at some records and at the release."""
    return [*np.asarray(prediction.risk, np.float64)[places], float(prediction.final_risk)]


def _final_std(prediction: Trajectory) -> float:
    """The standard deviation of the released risk, by default that of the last record."""
    assert prediction.std is not None
    std, final_std = prediction.std, prediction.final_std
    return float(np.asarray(std)[-1] if final_std is None else final_std)


def _in_sigmas(sigmas):
    return "" if np.isnan(sigmas) else f" ({sigmas:.1f} standard errors)"

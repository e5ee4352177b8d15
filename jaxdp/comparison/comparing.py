"""The comparison of simulated runs with predictions, and the average of runs."""

import dataclasses
import warnings

import jax
import numpy as np

from jaxdp.comparison.result import Comparison, exit_lines
from jaxdp.core.arrays import in_jax
from jaxdp.core.checks import require_host, require_kind
from jaxdp.core.trajectory import Status, Trajectory

# Beyond this ratio two risks at the start, less five standard errors, are not of one problem. A
# table's surrogate starts about zeta^2 d / (2 n) above the table.
_LARGEST_RATIO, _SIGMAS = 1.5, 5.0


def compare(simulated: Trajectory, *predictions: Trajectory) -> Comparison:
    """Compare simulated runs with predictions: means, gaps, standard errors and standard
    deviations.

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
    for line in exit_lines(predictions):
        warnings.warn(line, UserWarning, stacklevel=2)
    well = np.asarray(simulated.status) == Status.OK
    if not well.any():
        raise ValueError("expected at least one run that ended well; all of them failed")
    mean, error = _mean_and_error(np.asarray(simulated.risk)[well])
    final_mean, final_error = _mean_and_error(np.asarray(simulated.final_risk)[well])
    for prediction in predictions:
        start = float(np.asarray(prediction.risk)[0])
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


def _are_apart(mean: float, error: float, start: float) -> bool:
    """Whether two initial risks differ too much for one problem."""
    low, high = sorted((mean, start))
    return high - _SIGMAS * np.nan_to_num(error) > _LARGEST_RATIO * low


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
    if runs.risk.ndim != 2:
        raise ValueError(f"expected runs of shape (runs, records), got {runs.risk.shape}")
    well = np.asarray(runs.status) == Status.OK
    if not well.any():
        raise ValueError("expected at least one run that ended well; all of them failed")
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


def _mean_and_error(runs):
    """Mean and standard error over the leading axis: NaN for one run, 0 for runs equal up to
    rounding.
    """
    rounding = 4 * np.finfo(runs.dtype).eps
    runs = runs.astype(np.float64)
    mean = runs.mean(axis=0)
    if len(runs) == 1:
        return mean, np.full_like(mean, np.nan)
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    return mean, np.where(error > rounding * np.abs(mean), error, 0.0)

"""Which equations a search follows: those of the problem that it is given."""

import jax
import numpy as np

from jaxdp.planning.streams.equations.scaled_setting import ScaledSetting
from jaxdp.planning.streams.equations.setting import AbstractSetting, setting_of
from jaxdp.planning.streams.equations.signal_setting import SignalSetting
from jaxdp.problems.streams.linear import LinearRegression
from jaxdp.problems.streams.signal import AbstractSignalProblem


def stream_setting_of(
    problem: LinearRegression | AbstractSignalProblem, num_samples: float, rho: float
) -> AbstractSetting:
    """The setting of any problem on a stream, with concrete numbers.

    Raises:
        ValueError: there is nothing to learn.
    """
    if isinstance(problem, AbstractSignalProblem):
        wide = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), problem)
        return SignalSetting(np.float64(problem.dim / num_samples), np.float64(rho), wide)
    plain = setting_of(problem, num_samples, rho)
    if not plain.initial_risk > 0:
        raise ValueError("expected a problem with something to learn, got a target of zero")
    scales = problem.input_scales
    if problem.loss.square_curvature == 1 and scales is None:
        return plain
    one = np.ones(1)
    values, weights = (one, one) if scales is None else (scales.values, scales.weights)
    return ScaledSetting(
        plain.gamma,
        plain.rho,
        plain,
        np.asarray(values, np.float64),
        np.asarray(weights, np.float64),
        problem.loss.on_host(),
    )

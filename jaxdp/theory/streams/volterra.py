r"""The deterministic equivalent of one pass with correlated noise: a discrete Volterra system.

The noise of step k depends on all earlier draws, but its effect on the parameters is linear given
the descent factors $\mu_k$. With $g_k = \eta_k\mu_k$, per eigenvalue $\lambda_i$ of the covariance,

$$ D^0_{i,k} = (1 - \lambda_i g_k)^2 D^0_{i,k-1} + \lambda_i\eta_k^2\,(d/B)\,\nu_k P_k, \qquad
   D_{i,k} = D^0_{i,k} + \frac{2c^2d^2}{B^2\rho^2}\,|h_{i,k}|^2, $$
$$ h_{i,k} = (1 - \lambda_i g_k)\,h_{i,k-1} + \eta_k M_k, \qquad R_k = \sum_i w_i D_{i,k}, $$

where $M_k$ is row k of the strategy's inverse, which makes the noise, $h_{i,0} = 0$, and
$\mu_k, \nu_k, P_k = R_{k-1} + \zeta^2/2$ are evaluated at the risk before the step.

Exact as d and B grow in proportion. The squared mean gradient $-(\lambda_i g_k)^2 D_i/B$ is left
out, one of several terms of relative order 1/d
(test_the_shared_gradients_square_does_not_improve_the_recursion). Derived: second moments of one
step, linear in $\theta - \theta^*$ given the path of the risk;
tests/agreement/theory/streams/test_volterra.py.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxdp.algorithms.correlated_dp_sgd import CorrelatedDPSGD
from jaxdp.core.arrays import float_dtype
from jaxdp.core.trajectory import Trajectory, record_steps, trajectory_of
from jaxdp.theory.base import AbstractTheory, require_plain_pass
from jaxdp.theory.streams.modes import Modes, eigen_modes


class DiscreteVolterra(AbstractTheory):
    """Predict the risk of one-pass DP-SGD with correlated noise, for large d and B.

    The only theory of `CorrelatedDPSGD`. All its numbers, the strategy included, may be traced.

    Example:
        >>> import jaxdp
        >>> problem = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> noise = {"rho": 1.0, "strategy": jaxdp.privacy.independent_strategy(4)}
        >>> steps = {"rates": [3.0, 1.2, 0.7, 0.4], "clip_scale": 0.45, "batch_size": 2500}
        >>> algorithm = jaxdp.CorrelatedDPSGD(**steps, **noise)
        >>> predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.theory.DiscreteVolterra())
        >>> print(f"{predicted.label}: {predicted.final_risk:.5f}")
        Volterra: 0.00107
    """

    def read(self, problem, algorithm) -> tuple[Modes, CorrelatedDPSGD]:
        require_plain_pass(problem, algorithm, CorrelatedDPSGD)
        return eigen_modes(problem), algorithm

    def solve(self, reading, records):
        modes, algorithm = reading
        return _solve(modes, algorithm, records)


class Path(NamedTuple):
    """The solution of the system at each step."""

    risk: Float[Array, " records"]  # R_k after step k, k from 0 to K
    clipped: Float[Array, " steps"]  # $1 - \mu_k$, the clipped share of the samples of step k
    # $G_{i,kj}$: displacement after step k, in mode i, by unit noise on the gradient of step j.
    responses: Float[Array, "steps modes steps"]


def path_of(
    modes: Modes, algorithm: CorrelatedDPSGD, more_noise: Float[Array, "steps modes"] | None = None
) -> Path:
    """The system's solution, with `more_noise` added to $|h_{i,k}|^2$, for derivatives in it."""
    dtype = float_dtype(modes, algorithm)
    count, dim, batch = algorithm.num_steps, modes.dim, algorithm.batch_size
    decay = modes.descent.astype(dtype)
    strength = 2 * (algorithm.noise_ratio * dim / batch) ** 2
    if more_noise is None:
        more_noise = jnp.zeros((count, len(decay)), dtype)

    def step(state, now):
        own, noise, responses, risk = state
        rate, row, unit, extra = now
        second_moment = modes.second_moment(risk).astype(dtype)
        descent, variance = algorithm.clip.moments(second_moment)
        kept = 1 - rate * descent * decay
        spread = modes.diffusion * rate**2 * (dim / batch) * variance * second_moment / 2
        own = (kept**2 * own + spread).astype(dtype)
        noise = (kept[:, None] * noise + rate * row[None]).astype(dtype)
        responses = (kept[:, None] * responses + rate * unit[None]).astype(dtype)
        left = jnp.sum(noise**2, axis=1) + extra
        risk = modes.risk(own + strength * left).astype(dtype)
        return (own, noise, responses, risk), (risk, 1 - descent, responses)

    nothing = jnp.zeros((len(decay), count), dtype)
    own = modes.initial.astype(dtype)
    start = (own, nothing, nothing, modes.risk(own).astype(dtype))
    steps = (
        algorithm.rates.astype(dtype),
        algorithm.mixing.astype(dtype),
        jnp.eye(count, dtype=dtype),
        more_noise,
    )
    _, (risks, clipped, responses) = lax.scan(step, start, steps)
    return Path(jnp.append(start[3][None], risks), clipped, responses)


@eqx.filter_jit
def _solve(modes, algorithm, records: int) -> Trajectory:
    path = path_of(modes, algorithm)
    at_record = record_steps(algorithm.num_steps, records)
    risk = path.risk[at_record]
    dtype = risk.dtype
    clipped = jnp.append(jnp.zeros(1, dtype), jnp.cumsum(path.clipped.astype(dtype)))
    used = jnp.maximum(jnp.asarray(at_record), 1).astype(dtype)
    return trajectory_of(
        modes.is_valid & algorithm.is_valid,
        time=(jnp.asarray(at_record) / algorithm.num_steps).astype(dtype),
        risk=risk,
        final_risk=risk[-1],
        observables={
            "clipped_fraction": clipped[at_record] / used,
            # No step is capped.
            "capped_fraction": jnp.zeros_like(risk),
        },
        label="Volterra",
    )

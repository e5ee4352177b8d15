r"""Logistic regression on isotropic Gaussian inputs, its labels drawn from the model itself.

Beyond AC, whose theory is that of linear regression. What is known of private logistic regression
in the proportional regime is mostly about other algorithms. A logistic gradient is at most
$\|x\|$ long, so that on inputs of bounded norm output perturbation, objective perturbation and
noisy gradient descent are private without a clip. Dwork, Tankala and Zhang (2024), "Differentially
private learning beyond the classical dimensionality regime" (arXiv 2411.13682), by its abstract
estimates the error of these three, for robust linear and for logistic regression, to a factor of
1 + o(1) as d and n grow together, and finds that either perturbation can be the better one. Their
estimates are not implemented here. Here gradients are clipped, at a scale c that may be as small as
one likes, each row is used once, and the prediction is the whole path of the last iterate.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr
from jaxtyping import Array, ArrayLike, Float

from jaxdp.core.arrays import as_float
from jaxdp.core.checks import require_count, require_positive
from jaxdp.losses import Logistic, well_specified_risk, well_specified_slope
from jaxdp.problems.streams.signal import AbstractSignalProblem


class LogisticRegression(AbstractSignalProblem):
    r"""Logistic regression on a stream of isotropic Gaussian inputs.

    Labels y = -1 and +1 with $P(y = 1 \mid x) = \sigma(x^\top\theta^*)$, $x \sim N(0, I_d)$.

    The loss is $\ln(1 + e^{-y x^\top\theta})$. The risk is its mean over fresh samples less that
    of $\theta^*$, which minimises it, so that at $\theta = 0$ it is at most ln 2. A gradient is at
    most $\|x\|$ long, about $\sqrt d$: a `clip_scale` of 1 or more clips next to nothing. Its
    Lipschitz constant is $\|x\|^2/4$, and `OnePassDPSGD` caps a sample's step at $8/\|x\|^2$.
    Learning rates are larger than those of linear regression, because curvatures are smaller.

    Args:
        dim: number of inputs d, >= 2.
        signal: $\|\theta^*\|$, the standard deviation of the log-odds; > 0.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind or out of range.

    Example:
        >>> import jax, jaxdp
        >>> problem = jaxdp.LogisticRegression(dim=200, signal=2.0)
        >>> algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(12.0, power=0.5), 0.3, 1.0, 2000)
        >>> runs = jaxdp.simulate(problem, algorithm, num_runs=20, key=jax.random.key(0))
        >>> sorted(runs.observables)
        ['capped_fraction', 'clipped_fraction', 'norm_squared', 'overlap']
        >>> print(f"mu = {jaxdp.account(algorithm, delta=1e-5).mu:.1f}")
        mu = 1.0
    """

    _dim: int = eqx.field(static=True)
    signal: Float[Array, ""]

    def __init__(self, dim: int, *, signal: ArrayLike):
        self._dim = require_count("dim", dim, least=2)
        self.signal = as_float(signal, "signal")
        require_positive("signal", self.signal)

    @property
    def dim(self):
        return self._dim

    @property
    def loss(self) -> Logistic:
        """The loss of a sample."""
        return Logistic()

    @property
    def is_valid(self):
        return (self.signal > 0) & jnp.isfinite(self.signal)

    def label(self, signals, normals):
        return jnp.where(ndtr(normals) < jax.nn.sigmoid(signals), 1, -1).astype(signals.dtype)

    def slope_moments(self, overlap, remainder, limit):
        return well_specified_slope(overlap, remainder, self.signal, limit)

    def risk_at(self, overlap, remainder):
        return well_specified_risk(overlap, remainder, self.signal)

"""Linear regression as labels that follow a signal: theories of signals are held to known ones."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from jaxdp.losses import HalfSquared
from jaxdp.losses.gaussian.well_specified_logistic import SignalSlope
from jaxdp.problems.streams.signal import AbstractSignalProblem

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_REACH = 8.0


class LinearSignal(AbstractSignalProblem):
    """y = x.theta* + zeta z with half the squared loss, its moments by quadrature over labels."""

    _dim: int = eqx.field(static=True)
    signal: jnp.ndarray
    label_noise: jnp.ndarray

    def __init__(self, dim, *, signal, label_noise):
        self._dim = dim
        self.signal, self.label_noise = jnp.asarray(signal), jnp.asarray(label_noise)

    @property
    def dim(self):
        return self._dim

    @property
    def loss(self):
        return HalfSquared()

    @property
    def is_valid(self):
        return self.signal > 0

    def label(self, signals, normals):
        return signals + self.label_noise * normals

    def slope_moments(self, overlap, remainder, limit):
        r"""Over labels and the part of the prediction that follows the signal, beside it exactly.

        Without what is independent of the signal the residual is $V u$, u a standard normal with
        $E[z u] = (p - S)/V$; the rest of the prediction is Gaussian given that.
        """
        behind = overlap - self.signal
        spread = jnp.sqrt(behind**2 + self.label_noise**2)
        kink = jnp.minimum(limit / spread, 0.9 * _REACH)
        edges = jnp.stack([-_REACH, -2 * kink, -kink, 0.0, kink, 2 * kink, _REACH])
        edges = jnp.clip(edges, -_REACH, _REACH)
        half = jnp.diff(edges)[:, None] / 2
        u = (edges[:-1, None] + half * (1 + _NODES[None])).ravel()
        weights = (half * _WEIGHTS[None]).ravel() * jnp.exp(-(u**2) / 2) / np.sqrt(2 * np.pi)
        found = HalfSquared().clipped_slope(
            spread * u, jnp.full_like(u, remainder), jnp.zeros_like(u), jnp.full_like(u, limit)
        )
        return SignalSlope(
            along=behind / spread * jnp.sum(weights * found.mean * u),
            derivative=jnp.sum(weights * found.derivative),
            square=jnp.sum(weights * found.square),
            clipped=jnp.sum(weights * found.clipped),
        )

    def risk_at(self, overlap, remainder):
        return ((overlap - self.signal) ** 2 + remainder) / 2

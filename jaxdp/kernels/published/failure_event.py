"""A Gaussian mechanism whose sensitivity holds but for an event of known probability."""

import equinox as eqx

from jaxdp.core.checks import concrete
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.arguments import host_scalar
from jaxdp.privacy.gaussian import gaussian_epsilon
from jaxdp.privacy.mechanisms import AbstractMechanism, Proved


class GaussianUnlessFailure(AbstractMechanism):
    r"""mu-GDP given an event whose complement, of probability p, depends on no noise.

    If the projection of a random map keeps two given records within a bound, what follows is a
    Gaussian mechanism; the probability that it does not is paid once, for the whole release:
    $\delta(\epsilon) \le H(\mu, \epsilon) + p$, with H as `gaussian_delta`.

    Composing (epsilon, delta) statements of its parts, each with its own event, is what PK
    Theorem 8 does; the parts share their projection, so its composition theorem does not apply.

    Args:
        mu: >= 0, given the event.
        failure: p, the probability for any two records that are fixed before the map is drawn.
    """

    mu: float = eqx.field(converter=lambda value: host_scalar("mu", value))
    failure: float = eqx.field(converter=lambda value: host_scalar("failure", value))

    @property
    def proved(self):
        return Proved(None, None)

    @property
    def adjacencies(self):
        return (REPLACE_ONE,)

    @property
    def assumptions(self):
        return ("the random map is drawn afresh and seen by nobody who chooses a record",)

    def epsilon(self, delta, adjacency):
        known = concrete(delta)
        if known is None:
            raise TypeError("expected a concrete delta, got a traced one: account outside jit")
        left = float(known) - self.failure
        return gaussian_epsilon(self.mu, left) if left > 0 else float("inf")

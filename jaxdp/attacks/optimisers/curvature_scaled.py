r"""The default optimiser of the attack: momentum with steps scaled by the curvature.

A step computes the loss on one block of the features only, which costs a fraction of a full pass.
At a solution the parameters in every block are the same combination of the guessed rows' features,
so that a step on one block is as exact there as a step on all of them. Away from a solution the
blocks disagree, and this noise leads out of poor local minima. `scaled_steps` has the steps, and
`rounds` says when more rows than are looked for ("spare rows") are tried.
Derived: that it solves what the published optimiser does not, test_curvature_scaled.
"""

import equinox as eqx
from jaxtyping import Array, Float

from jaxdp.attacks.optimisers.base import AbstractOptimiser
from jaxdp.attacks.optimisers.rounds import Rounds
from jaxdp.core.arrays import as_float, plain_float
from jaxdp.core.checks import host_number, require_positive


class CurvatureScaledMomentum(AbstractOptimiser):
    r"""Momentum with steps that the curvature scales, in rounds with spare rows and without.

    The numbers were chosen on random features of width 2dn to 10dn, on the sphere and on small
    images; networks were tried with them, not tuned for.

    Args:
        step_size: in units of what the largest curvature of a random block allows.
        momentum: of heavy ball, in [0, 1).
        damping: share of its own curvature that is added to each row's.
        longest_step: of a row before momentum, in units of its length.
        spare_rows: how many rows are added for the search, as a share of those looked for.

    Raises:
        ValueError: a number is out of its range.

    Example:
        >>> from jaxdp.attacks import CurvatureScaledMomentum
        >>> optimiser = CurvatureScaledMomentum(momentum=0.8)  # for `reconstruct(optimiser=...)`
        >>> print(f"{optimiser.momentum:.2f}, {optimiser.longest_step:.2f}")
        0.80, 0.30
    """

    step_size: Float[Array, ""] = eqx.field(converter=as_float, default=1.0)
    momentum: Float[Array, ""] = eqx.field(converter=as_float, default=0.65)
    damping: Float[Array, ""] = eqx.field(converter=as_float, default=0.05)
    longest_step: Float[Array, ""] = eqx.field(converter=as_float, default=0.3)
    spare_rows: float = eqx.field(static=True, converter=plain_float, default=0.5)

    def __check_init__(self):
        for name in ("step_size", "damping", "longest_step", "spare_rows"):
            require_positive(name, getattr(self, name))
        if not 0 <= host_number("momentum", self.momentum) < 1:
            raise ValueError(f"expected momentum in [0, 1), got {self.momentum}")

    def minimise(self, target, starts, *, key, max_passes, tolerance, num_known=0, progress=None):
        scaling = self.step_size, self.momentum, self.damping, self.longest_step
        rounds = Rounds(
            target,
            starts,
            scaling,
            self.spare_rows,
            key=key,
            max_passes=max_passes,
            tolerance=tolerance,
            num_known=num_known,
            progress=progress,
        )
        while rounds.is_open():
            rounds.play()
        return rounds.attempt()

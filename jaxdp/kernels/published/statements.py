"""What the published releases state about themselves: the paper's claim beside what is proved."""

from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.mechanisms import AbstractMechanism
from jaxdp.privacy.release import Release, StatedBudget
from jaxdp.privacy.secret_noise import SecretNoise

_ASSUMPTIONS = (
    "public, and chosen without looking at the data: the number of records, the names of columns, "
    "the bounds, the kernel, the ridge, the seed of the features",
    "noise is an exact Gaussian: sums and noise are those of float64, and its low bits are not "
    "accounted for",
)


def statement(
    what: str,
    mechanism: AbstractMechanism,
    source: SecretNoise,
    *remarks: str,
    epsilon: float,
    delta: float,
) -> Release:
    """A release with the paper's (epsilon, delta) as its claim and its faults as assumptions.

    Args:
        what: what is released, in words.
        mechanism: what is proved of it for noise that nobody can guess.
        source: where the noise came from.
        remarks: its faults, in words.
        epsilon, delta: the paper's claim.
    """
    return Release(
        what,
        REPLACE_ONE,
        source.proved(mechanism),
        (*remarks, *_ASSUMPTIONS, *source.assumptions()),
        StatedBudget(float(epsilon), float(delta)),
    )

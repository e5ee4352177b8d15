"""What the published releases state about themselves: the paper's claim beside what is proved."""

from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.mechanisms import AbstractMechanism
from jaxdp.privacy.release import Release, StatedBudget

_ASSUMPTIONS = (
    "public, and chosen without looking at the data: the number of records, the bounds, the "
    "kernel, the ridge, the seed of the features",
    "the noise, and a seed that it is drawn from, stay secret",
    "sums and noise are those of float64: what that differs from the real line is not accounted "
    "for",
)


def statement(
    what: str, mechanism: AbstractMechanism, *remarks: str, epsilon: float, delta: float
) -> Release:
    """A release with the paper's (epsilon, delta) as its claim and its faults as assumptions."""
    return Release(
        what,
        REPLACE_ONE,
        mechanism,
        (*remarks, *_ASSUMPTIONS),
        StatedBudget(float(epsilon), float(delta)),
    )

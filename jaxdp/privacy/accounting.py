"""The verb `account`: the privacy cost of anything that states what it releases."""

import dataclasses
import math
from fractions import Fraction
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from jaxdp.core.checks import concrete
from jaxdp.core.display import AbstractExplained, Explanation, Row
from jaxdp.core.display import in_words as shown
from jaxdp.core.terminals import on_a_line
from jaxdp.privacy.arguments import check_delta, warn_of_large_delta
from jaxdp.privacy.release import Release, release_of, unit_of_privacy
from jaxdp.privacy.tradeoffs import best_area, best_rate, in_words

# The false-positive rate of the reported test.
_FALSE_POSITIVES = 0.01


class Cost(AbstractExplained, eqx.Module):
    """A privacy guarantee: (epsilon, delta), and the stronger statements that imply it.

    Attributes:
        epsilon: the smallest proved epsilon at delta; infinite if nothing is proved.
        delta: the requested delta.
        mu: the proved Gaussian DP parameter, or None.
        zcdp: the proved zero-concentrated DP parameter, or None.
        published_epsilon: epsilon at delta as the paper states it, proved or not, or None.
        adjacency: definition of neighbours, "replace-one", "add-or-remove-one" or "zero-out-one".
            Replacing a record moves a sum of clipped terms twice as far as leaving it out.
        is_certified: True if the guarantee holds in machine arithmetic; otherwise it holds for
            exact normal noise, which floating-point noise simulates.
        assumptions: sentences on what the guarantee needs and leaves out.
        records_per_person: largest number of records of a person, if neighbours differ in a person;
            None if they differ in one record.
        membership_auc, membership_rate: the largest AUC of a test whether one record was used, all
            others known, and its true-positive rate at 1 % false positives; None if traced.

    Example:
        >>> import jaxdp
        >>> cost = jaxdp.account(jaxdp.DPGD(0.02, 1.0, num_steps=50, noise_scale=2.0), delta=1e-5)
        >>> print(f"{cost.epsilon:.2f}, {cost.mu:.2f}, {cost.adjacency}, {cost.is_certified}")
        1.99, 0.50, replace-one, False
    """

    epsilon: float | Float[Array, "*batch"]
    delta: float | Float[Array, "*batch"]
    mu: float | Float[Array, "*batch"] | None
    zcdp: float | Float[Array, "*batch"] | None
    published_epsilon: float | Float[Array, "*batch"] | None
    adjacency: str = eqx.field(static=True)
    is_certified: bool = eqx.field(static=True)
    assumptions: tuple[str, ...] = eqx.field(static=True)
    membership_auc: float | None = None
    membership_rate: float | None = None
    records_per_person: int | None = eqx.field(static=True, default=None)

    @property
    def unit(self) -> str:
        """The unit in which neighbours differ, in words."""
        return unit_of_privacy(self.records_per_person)

    def __str__(self):
        if not self._is_plain:
            return repr(self)
        strong = [f"{self.mu:.4g}-GDP"] if self.mu is not None else []
        strong += [f"{self.zcdp:.4g}-zCDP"] if self.zcdp is not None else []
        text = f"privacy: ({_rounded_up(float(self.epsilon))}, {self.delta:g})-DP"
        if strong:
            text += f" from {', '.join(strong)}"
        noise = "certified" if self.is_certified else "simulated"
        text += f"; {self.unit}, {self.adjacency}; {noise} noise"
        if self.published_epsilon is not None:
            text += f"; published: epsilon {self.published_epsilon:.4f}"
        lines = [self.in_words, *self.assumptions] if self.in_words else self.assumptions
        # The texts of a model's file may hold escape sequences.
        return "\n".join([on_a_line(text), *(f"  - {on_a_line(each)}" for each in lines)])

    @property
    def in_words(self) -> str:
        """The best membership test, as a sentence; empty if it is unknown."""
        if self.membership_auc is None or self.membership_rate is None:
            return ""
        who = "one record" if self.records_per_person is None else "one person"
        return in_words(self.membership_auc, self.membership_rate, who)

    @property
    def _is_plain(self) -> bool:
        values = self.epsilon, self.delta
        return not any(isinstance(value, Tracer) or np.ndim(value) for value in values)

    def _explanation(self):
        epsilon = _rounded_up(float(self.epsilon)) if self._is_plain else shown(self.epsilon, 0)
        noise = "certified" if self.is_certified else "simulated"
        rows = (
            Row("epsilon", epsilon, "proved at delta"),
            Row("delta", shown(self.delta, 0), "probability beyond epsilon"),
            Row("mu", shown(self.mu, 0), "Gaussian DP"),
            Row("zcdp", shown(self.zcdp, 0), "zero-concentrated DP"),
            Row("published_epsilon", shown(self.published_epsilon, 0), "stated by the paper"),
            Row("unit", self.unit, "in which neighbours differ"),
            Row("adjacency", self.adjacency, "who the neighbours are"),
            Row("noise", noise, "whether it holds in the arithmetic of the machine"),
        )
        lines = (self.in_words,) if self.in_words else ()
        return Explanation("Privacy cost", rows, (*lines, *self.assumptions))


def account(thing: Any, *, delta: Any, records_per_person: int = 1) -> Cost:
    """The privacy cost of an algorithm, or of anything else that has a `release()`.

    Args:
        thing: an algorithm or a `Release`.
        delta: number in (0, 1).
        records_per_person: largest number k of records of one person, public; default 1, the cost
            for one record. It is k mu for Gaussian DP; for Poisson batches it is computed from
            mixtures of Gaussians, which takes the drawn number of a person's records into account.

    Returns:
        The cost at delta: floats for a concrete release, arrays for a traced one.

    Warns:
        UserWarning: delta is at least 1/n, if the release states its number n of records.

    Raises:
        TypeError: `thing` does not state what it releases.
        ImportError: a subsampled mechanism needs dp_accounting, which is not installed.

    Example:
        >>> import jaxdp
        >>> algorithm = jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), 1.0, rho=0.5, num_steps=100)
        >>> cost = jaxdp.account(algorithm, delta=1e-5)
        >>> print(f"epsilon {cost.epsilon:.3f}, mu {cost.mu:.1f}, {cost.adjacency}")
        epsilon 1.993, mu 0.5, replace-one
    """
    if np.ndim(delta):
        raise ValueError(f"expected one delta, got shape {np.shape(delta)}; use vmap over account")
    check_delta(delta)
    thing = release_of(thing).for_groups(records_per_person)
    warn_of_large_delta(delta, thing.num_records, stacklevel=2)
    return cost_of(thing, delta)


def cost_of(thing: Release, delta: Any) -> Cost:
    """The cost of a release at a checked delta, without a warning."""
    # Through the constructor, whose checks a copy may have skipped.
    thing = dataclasses.replace(thing)
    for leaf in jax.tree.leaves((thing.mechanism, thing.published)):
        if np.ndim(leaf):
            shape = np.shape(leaf)
            raise ValueError(
                f"expected one release, got a batch of shape {shape}; use vmap over account"
            )
    mechanism, published = thing.mechanism, thing.published
    best = None, None
    if all(concrete(leaf) is not None for leaf in jax.tree.leaves(mechanism)):
        rate = best_rate(mechanism, thing.adjacency, np.asarray(_FALSE_POSITIVES))
        best = best_area(mechanism, thing.adjacency), float(rate)
    return Cost(
        epsilon=_plain(mechanism.epsilon(delta, thing.adjacency)),
        delta=_plain(delta),
        mu=_plain(mechanism.proved.mu),
        zcdp=_plain(mechanism.proved.zcdp),
        published_epsilon=None if published is None else _plain(published.epsilon_at(delta)),
        adjacency=thing.adjacency,
        is_certified=thing.is_certified,
        assumptions=(
            f"{thing.what}; neighbours: {thing.adjacency}",
            *mechanism.assumptions,
            *thing.assumptions,
        ),
        records_per_person=thing.records_per_person,
        membership_auc=best[0],
        membership_rate=best[1],
    )


def _rounded_up(epsilon: float) -> str:
    """A number rounded up to four decimals, or to three digits if it is small."""
    if not 0 < epsilon < math.inf:
        return f"{epsilon:.4f}"
    decimals = 4 if epsilon >= 1e-3 else 2 - math.floor(math.log10(epsilon))
    steps = math.ceil(Fraction(epsilon) * 10**decimals)
    return f"{steps / 10**decimals:.4f}" if decimals == 4 else f"{steps / 10**decimals:.3g}"


def _plain(value: Any) -> Any:
    known = None if value is None else concrete(value)
    return float(known) if known is not None and known.shape == () else value

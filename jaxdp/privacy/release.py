"""Releases: public values and what is proved about them, as data that an accountant reads."""

import abc
import dataclasses
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxdp.core.checks import concrete, described, require_count, require_kind
from jaxdp.privacy.adjacency import ADJACENCIES
from jaxdp.privacy.arguments import check_delta, host_scalar, persons
from jaxdp.privacy.conversions.zcdp import zcdp_epsilon_published
from jaxdp.privacy.mechanisms import AbstractMechanism, Composition, Unproved, require_mechanism

_Scalar = float | Float[Array, ""]


class AbstractClaim(eqx.Module):
    """A privacy cost that a paper states, reported next to the proved one."""

    @abc.abstractmethod
    def epsilon_at(self, delta: Any) -> Any:
        """The epsilon that the paper states at delta; infinite if it states none."""


class PublishedConversion(AbstractClaim):
    """A zCDP guarantee, z >= 0, turned into epsilon by the published, loose conversion."""

    zcdp: _Scalar = eqx.field(converter=lambda value: host_scalar("zcdp", value))

    def epsilon_at(self, delta):
        return zcdp_epsilon_published(self.zcdp, delta)


class StatedBudget(AbstractClaim):
    """One pair (epsilon, delta) that a paper states.

    Args:
        epsilon: number >= 0.
        delta: number in (0, 1).

    Example:
        >>> from jaxdp.privacy import StatedBudget
        >>> claim = StatedBudget(epsilon=1.0, delta=1e-5)
        >>> claim.epsilon_at(1e-5), claim.epsilon_at(1e-6)
        (1.0, inf)
    """

    epsilon: _Scalar = eqx.field(converter=lambda value: host_scalar("epsilon", value))
    delta: _Scalar = eqx.field(converter=lambda value: host_scalar("delta", value))

    def __check_init__(self):
        check_delta(self.delta)

    def epsilon_at(self, delta):
        if any(concrete(value) is None for value in (self.epsilon, self.delta, delta)):
            return jnp.where(jnp.asarray(delta) >= self.delta, self.epsilon, jnp.inf)
        return self.epsilon if delta >= self.delta else math.inf


class Release(eqx.Module):
    """A release: the values that an algorithm makes public, with the proof of their privacy.

    Args:
        what: description of the released values, for people.
        adjacency: definition of neighbours, "replace-one", "add-or-remove-one" or "zero-out-one".
        mechanism: mechanism with the proved guarantee.
        assumptions: sentences on what the guarantee needs and leaves out; default none.
        published: claim of the paper, or None (default).
        is_certified: True if the proof holds in machine arithmetic; False (default) if it holds for
            exact normal noise, which floating-point noise simulates.
        num_records: n, a public lower bound on the number of records, or None (default) if unknown;
            `account` warns of a delta of at least 1/n.
        records_per_person: largest number of records of a person, if neighbours differ in a person;
            `num_records` is then a bound on the number of persons. None (default): in one record.

    Raises:
        ValueError: the mechanism is not proved for the adjacency.

    Example:
        >>> import jaxdp
        >>> from jaxdp.privacy import GaussianMechanism, Release
        >>> release = Release("a noisy mean", "replace-one", GaussianMechanism(0.5))
        >>> print(f"epsilon = {jaxdp.account(release, delta=1e-5).epsilon:.2f}")
        epsilon = 1.99
    """

    what: str = eqx.field(static=True)
    adjacency: str = eqx.field(static=True)
    mechanism: AbstractMechanism
    assumptions: tuple[str, ...] = eqx.field(static=True, default=())
    published: AbstractClaim | None = None
    is_certified: bool = eqx.field(static=True, default=False)
    num_records: int | None = eqx.field(static=True, default=None)
    records_per_person: int | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        require_kind("what", self.what, str, "a text")
        require_mechanism("mechanism", self.mechanism)
        require_kind("assumptions", self.assumptions, tuple, "a tuple of texts")
        if self.published is not None:
            require_kind("published", self.published, AbstractClaim, "a claim, or None")
        if self.adjacency not in ADJACENCIES:
            raise ValueError(f"expected adjacency to be one of {ADJACENCIES}, got {self.adjacency}")
        if self.num_records is not None:
            require_count("num_records", self.num_records)
        if self.records_per_person is not None:
            require_count("records_per_person", self.records_per_person)
        proved = self.mechanism.adjacencies
        if self.adjacency not in proved:
            wanted = f"{type(self.mechanism).__name__} is proved ({', '.join(proved)})"
            raise ValueError(f"expected an adjacency for which {wanted}, got {self.adjacency}")

    def for_groups(self, records_per_person: int) -> "Release":
        """The statement about a person with at most k records, without the paper's claim."""
        count = require_count("records_per_person", records_per_person)
        if count in (1, self.records_per_person):
            return self
        if self.records_per_person is not None:
            unit = unit_of_privacy(self.records_per_person)
            raise ValueError(f"expected a release about one record, got one about {unit} already")
        mechanism = self.mechanism.for_groups(count)
        if self.adjacency not in mechanism.adjacencies:
            covered = f"{' or '.join(mechanism.adjacencies)}, not {self.adjacency}"
            mechanism = Unproved(f"several records of a person are covered for {covered}")
        return dataclasses.replace(
            self,
            mechanism=mechanism,
            published=None,
            num_records=persons(self.num_records, count),
            records_per_person=count,
        )


def unit_of_privacy(records_per_person: int | None) -> str:
    """The unit in which neighbours differ, in words."""
    if records_per_person is None:
        return "one record"
    verb = "records are" if records_per_person > 1 else "record is"
    return f"a person of whom at most {records_per_person} {verb} used"


def release_of(thing: Any, name: str = "thing") -> Release:
    """The argument if it is a release, else the result of its method `release`."""
    if isinstance(thing, Release):
        return thing
    if not hasattr(thing, "release") or isinstance(thing, type):
        came = f"the class {thing.__name__}" if isinstance(thing, type) else described(thing)
        came += "; give its release_" if hasattr(thing, "release_") else ""
        raise TypeError(f"expected {name} to be an algorithm, a Release or a run, got {came}")
    return thing.release()


def compose(*things: Any) -> Release:
    """Several releases from the same data as one, each free to depend on earlier ones.

    The joint release is certified if all parts are, and its `num_records` is the largest of theirs.
    No published claim is kept, since papers claim nothing about the composition.

    Args:
        things: releases, or algorithms and runs that have one.

    Returns:
        One release with the parts' joint cost, for `jaxdp.account`.

    Raises:
        ValueError: the parts have different adjacencies, or are about one record and about a
            person, so no common guarantee follows.

    Example:
        >>> import jaxdp
        >>> from jaxdp.privacy import GaussianMechanism, Release, compose
        >>> mean = Release("a noisy mean", "replace-one", GaussianMechanism(0.3))
        >>> count = Release("a noisy count", "replace-one", GaussianMechanism(0.4))
        >>> print(f"mu = {jaxdp.account(compose(mean, count), delta=1e-5).mu:.2f}")
        mu = 0.50
    """
    releases = [release_of(thing, f"things[{place}]") for place, thing in enumerate(things)]
    adjacencies = tuple(dict.fromkeys(release.adjacency for release in releases))
    if len(adjacencies) != 1:
        came = ", ".join(adjacencies) or "none"
        raise ValueError(f"expected releases with one adjacency, got {came}")
    counts = {release.records_per_person: None for release in releases}
    if len(counts) != 1:
        units = " and ".join(map(unit_of_privacy, counts))
        raise ValueError(f"expected releases about the same unit, got {units}")
    lines = [line for release in releases for line in release.assumptions]
    sizes = [release.num_records for release in releases if release.num_records is not None]
    return Release(
        what="; ".join(release.what for release in releases),
        adjacency=adjacencies[0],
        mechanism=Composition(tuple(release.mechanism for release in releases)),
        assumptions=tuple(dict.fromkeys(lines)),
        is_certified=all(release.is_certified for release in releases),
        num_records=max(sizes, default=None),
        records_per_person=next(iter(counts)),
    )

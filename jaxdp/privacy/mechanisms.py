"""Mechanisms: how far apart the output distributions on two neighbours can lie, as data."""

import abc
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxdp.core.checks import concrete, require_kind
from jaxdp.privacy.adjacency import ADJACENCIES
from jaxdp.privacy.arguments import host_scalar
from jaxdp.privacy.conversions.gaussian import composed_mu, gaussian_epsilon
from jaxdp.privacy.conversions.subsampling import SampledGaussian, composed_epsilon
from jaxdp.privacy.conversions.zcdp import zcdp_epsilon

_Scalar = float | Float[Array, ""]
# Every delta gives a valid pair; more of them tighten the bounds on tests.
_DELTAS = np.concatenate([np.geomspace(1e-7, 1e-2, 11), np.linspace(0.02, 0.98, 25)])


class Proved(NamedTuple):
    """The Gaussian and zero-concentrated DP parameters of a mechanism; None if unproved."""

    mu: Any
    zcdp: Any


class AbstractMechanism(eqx.Module):
    """A mechanism, with what is proved about its output. Its numbers are floats, or traced."""

    @property
    def proved(self) -> Proved:
        """Gaussian and zero-concentrated DP, if proved."""
        return Proved(None, None)

    @property
    @abc.abstractmethod
    def adjacencies(self) -> tuple[str, ...]:
        """The adjacencies for which the proof holds."""

    @property
    @abc.abstractmethod
    def assumptions(self) -> tuple[str, ...]:
        """Sentences on what the mechanism itself needs."""

    @property
    def sampled(self) -> SampledGaussian | None:
        """A run of noisy sums over Poisson samples with no smaller cost, or None."""
        return None

    @abc.abstractmethod
    def epsilon(self, delta: Any, adjacency: str) -> Any:
        """The smallest proved epsilon at delta; infinite if there is none."""

    def pairs(self, adjacency: str) -> tuple[np.ndarray, np.ndarray]:
        """Some epsilons and deltas; each pair of them is proved."""
        return np.array([float(self.epsilon(float(one), adjacency)) for one in _DELTAS]), _DELTAS

    def for_groups(self, records_per_person: int) -> "AbstractMechanism":
        """The mechanism if neighbours differ in up to k records, all those of one person."""
        return Unproved(f"no proof covers {records_per_person} records of a person here")


def require_mechanism(name: str, mechanism: Any) -> None:
    """Raise TypeError unless the argument is a mechanism."""
    expected = "a mechanism, such as jaxdp.privacy.GaussianMechanism(1.0)"
    require_kind(name, mechanism, AbstractMechanism, expected)


class GaussianMechanism(AbstractMechanism):
    """A Gaussian mechanism, or anything else that is proved mu-GDP.

    A mu-GDP mechanism is also (mu^2/2)-zCDP. Source: Bun and Steinke (2016), Proposition 1.6. For k
    records of a person it is k mu-GDP. Source: Dong, Roth and Su (2022), Theorem 2.14, for any
    mechanism; parallel terms of a sum attain it.

    Args:
        mu: sensitivity under the release's adjacency over the noise's standard deviation, >= 0;
            infinite for no noise.

    Example:
        >>> from jaxdp.privacy import GaussianMechanism
        >>> mechanism = GaussianMechanism(1.0)
        >>> print(f"{mechanism.epsilon(1e-5, 'replace-one'):.3f}, zCDP {mechanism.proved.zcdp}")
        4.377, zCDP 0.5
    """

    mu: _Scalar = eqx.field(converter=lambda value: host_scalar("mu", value))

    @property
    def proved(self):
        # Checked again, because a copy may have set it.
        mu = host_scalar("mu", self.mu)
        return Proved(mu, mu * mu / 2)

    @property
    def sampled(self):
        is_nothing = concrete(self.mu) is not None and self.mu == 0
        return SampledGaussian(1.0, math.inf if is_nothing else 1 / self.mu, 1)

    @property
    def adjacencies(self):
        return ADJACENCIES

    @property
    def assumptions(self):
        return ()

    def epsilon(self, delta, adjacency):
        return gaussian_epsilon(self.mu, delta)

    def for_groups(self, records_per_person):
        return GaussianMechanism(_times(records_per_person, self.mu))


class ZeroConcentrated(AbstractMechanism):
    """A z-zCDP release, z >= 0: Renyi divergences of order alpha are at most alpha z.

    For k records of a person it is k^2 z-zCDP. Source: Bun and Steinke (2016), Proposition 1.9.
    """

    zcdp: _Scalar = eqx.field(converter=lambda value: host_scalar("zcdp", value))

    @property
    def proved(self):
        # Checked again, because a copy may have set it.
        return Proved(None, host_scalar("zcdp", self.zcdp))

    @property
    def adjacencies(self):
        return ADJACENCIES

    @property
    def assumptions(self):
        return ()

    def epsilon(self, delta, adjacency):
        return zcdp_epsilon(self.zcdp, delta)

    def for_groups(self, records_per_person):
        return ZeroConcentrated(_times(records_per_person**2, self.zcdp))


class Composition(AbstractMechanism):
    r"""Several mechanisms on the same data, each free to depend on the output of earlier ones.

    Gaussians add their $\mu^2$, and zCDP mechanisms their z (Bun and Steinke 2016, Lemma 1.7). Sums
    over Poisson batches compose their privacy losses, together with those of Gaussians if all zCDP
    mechanisms are Gaussian. Each of these groups, and each mechanism outside of them, gets an equal
    share of delta, and their epsilons add.

    Args:
        mechanisms: tuple of one or more mechanisms.

    Example:
        >>> from jaxdp.privacy import Composition, GaussianMechanism
        >>> from jaxdp.privacy.mechanisms import ZeroConcentrated
        >>> both = Composition((GaussianMechanism(0.8), ZeroConcentrated(0.18)))
        >>> print(f"zCDP {both.proved.zcdp:.2f}, epsilon {both.epsilon(1e-5, 'replace-one'):.3f}")
        zCDP 0.50, epsilon 4.728
    """

    mechanisms: tuple[AbstractMechanism, ...]

    def __check_init__(self):
        require_kind("mechanisms", self.mechanisms, (tuple, list), "a tuple of mechanisms")
        if not self.mechanisms:
            raise ValueError("expected at least one mechanism in mechanisms, got none")
        for place, mechanism in enumerate(self.mechanisms):
            require_mechanism(f"mechanisms[{place}]", mechanism)
        if not self.adjacencies:
            came = " and ".join(str(mechanism.adjacencies) for mechanism in self.mechanisms)
            raise ValueError(f"expected mechanisms that are proved for one adjacency, got {came}")

    @property
    def proved(self):
        mus, zcdps = zip(*(mechanism.proved for mechanism in self.mechanisms), strict=True)
        mu = None if any(value is None for value in mus) else composed_mu(*mus)
        return Proved(mu, None if any(value is None for value in zcdps) else _sum(zcdps))

    @property
    def adjacencies(self):
        known = [mechanism.adjacencies for mechanism in self.mechanisms]
        return tuple(name for name in ADJACENCIES if all(name in each for each in known))

    @property
    def assumptions(self):
        lines = [line for mechanism in self.mechanisms for line in mechanism.assumptions]
        return tuple(dict.fromkeys(lines))

    def epsilon(self, delta, adjacency):
        mu, zcdp = self.proved
        if mu is not None:
            return gaussian_epsilon(mu, delta)
        if zcdp is not None:
            return zcdp_epsilon(zcdp, delta)
        concentrated = [part for part in self._parts if part.proved.zcdp is not None]
        others = [part for part in self._parts if part.proved.zcdp is None]
        alone = [part for part in others if part.sampled is None]
        runs = [part.sampled for part in others if part.sampled is not None]
        gaussians = [part.sampled for part in concentrated if part.sampled is not None]
        if runs and len(gaussians) == len(concentrated):
            runs += gaussians
        elif concentrated:
            alone.append(Composition(tuple(concentrated)))
        share = delta / (len(alone) + bool(runs))
        epsilons = [part.epsilon(share, adjacency) for part in alone]
        return _sum(epsilons + ([composed_epsilon(runs, share, adjacency)] if runs else []))

    def for_groups(self, records_per_person):
        return Composition(tuple(part.for_groups(records_per_person) for part in self.mechanisms))

    @property
    def _parts(self) -> list[AbstractMechanism]:
        nested = (
            part._parts if isinstance(part, Composition) else [part] for part in self.mechanisms
        )
        return [part for parts in nested for part in parts]


class Unproved(AbstractMechanism):
    """A release whose guarantee has no proof, or is false: epsilon is infinite.

    Args:
        reason: explanation in words.

    Example:
        >>> from jaxdp.privacy import Unproved
        >>> Unproved("the published proof has a gap").epsilon(1e-5, "replace-one")
        inf
    """

    reason: str = eqx.field(static=True)

    def __check_init__(self):
        require_kind("reason", self.reason, str, "a text")

    @property
    def adjacencies(self):
        return ADJACENCIES

    @property
    def assumptions(self):
        return (f"not proved: {self.reason}",)

    def epsilon(self, delta, adjacency):
        return math.inf

    def for_groups(self, records_per_person):
        return self


def _times(count: int, value: Any) -> Any:
    """The product, rounded up if it is not traced."""
    product = count * value
    return product if concrete(value) is None else math.nextafter(float(product), math.inf)


def _sum(values: Sequence[Any]) -> Any:
    """The sum of some numbers; for floats never below the exact sum."""
    if any(concrete(value) is None for value in values):
        return jnp.stack([jnp.asarray(value, float) for value in values]).sum()
    return math.fsum(values) * (1 + 2**-52) if len(values) > 1 else values[0]

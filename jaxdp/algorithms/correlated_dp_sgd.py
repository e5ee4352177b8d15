"""One-pass DP-SGD with noise that is correlated over the steps, and all iterates released."""

import math
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.lax import Precision
from jaxtyping import Array, ArrayLike, Float, Int

from jaxdp.algorithms.base import Length, Update
from jaxdp.algorithms.calibration import AbstractRhoPass, checked_clip_and_rho, largest_rho
from jaxdp.clipping.norm_clip import NormClip
from jaxdp.core.arrays import as_wide_float, in_numpy
from jaxdp.core.checks import concrete, require_count
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.arguments import persons
from jaxdp.privacy.budgets import AbstractBudget, budget_of, warn_of_budget
from jaxdp.privacy.mechanisms import GaussianMechanism
from jaxdp.privacy.release import Release
from jaxdp.privacy.strategies import check_strategy, is_strategy, longest_column_of, noise_mixing


class _DrawnNoise(eqx.Module):
    fresh: Float[Array, "steps dim"]  # the draws so far, a row a step, zero for later steps
    count: Int[Array, ""]  # of steps made


class CorrelatedDPSGD(AbstractRhoPass):
    r"""One-pass DP-SGD on K batches with correlated noise; all iterates together are rho-GDP.

    With $C = c\sqrt d$ and rates $\eta_1, \dots, \eta_K$, for k = 1, ..., K:

        g_k     = mean of the B gradients at theta_(k-1), each times min(1, C/|g|)
        theta_k = theta_(k-1) - eta_k (g_k + (2 C / (B rho)) xi_k),   xi = strategy^-1 Z

    where Z has K rows of d independent standard normal numbers: a step takes back a part of the
    noise of earlier ones, at no cost in privacy. Few steps on large batches pay best. No step is
    capped, the rates may rise and fall, and one may stop early or choose among the iterates. The
    state holds the drawn noise and has to stay secret until the last step. Source: Denisov,
    McMahan, Rush, Smith and Thakurta (2022), "Improved differential privacy for SGD via optimal
    private linear operators on adaptive streams", for one pass; the proof is in `release`.

    Args:
        rates: $\eta_k$, K of them, finite and >= 0: the step sizes themselves, not over K.
        clip_scale: c > 0; infinite only together with rho.
        rho: all iterates are $\rho$-GDP; > 0, infinite for no noise.
        batch_size: B, samples per step; a Python int.
        strategy: (K, K), lower triangular with a positive diagonal and columns of norm at most 1:
            `jaxdp.privacy.independent_strategy`, `square_root_strategy`, or
            `jaxdp.planning.optimal_strategy`, which has the least predicted final risk.

    Raises:
        TypeError: an argument is not made of real numbers, or batch_size is no Python int.
        ValueError: a value is out of range, or the strategy has another form.

    Example:
        >>> import jaxdp
        >>> strategy = jaxdp.privacy.square_root_strategy(4, 0.2)
        >>> run = {"clip_scale": 0.4, "rho": 1.0, "batch_size": 2500, "strategy": strategy}
        >>> algorithm = jaxdp.CorrelatedDPSGD([2.0, 1.0, 0.7, 0.5], **run)
        >>> print(f"epsilon = {jaxdp.account(algorithm, delta=1e-5).epsilon:.2f}")
        epsilon = 4.38
    """

    releases_every_iterate: ClassVar[bool] = True
    rates: Float[Array, " steps"]
    clip: NormClip
    rho: Float[Array, ""]
    strategy: Float[Array, "steps steps"]
    batch_size: int = eqx.field(static=True)
    _mixing: Float[Array, "steps steps"]
    _length: Length

    def __init__(
        self,
        rates: Float[Any, " steps"],
        clip_scale: ArrayLike,
        rho: ArrayLike,
        *,
        batch_size: int,
        strategy: Float[Any, "steps steps"],
    ):
        self.rates = as_wide_float(rates, "rates")
        if self.rates.ndim != 1 or self.rates.size == 0:
            came = f"got shape {self.rates.shape}; make a batch with vmap over the constructor"
            raise ValueError(f"expected rates to be a vector of one rate a step, {came}")
        known = concrete(self.rates)
        if known is not None and (wrong := known[~(np.isfinite(known) & (known >= 0))]).size:
            raise ValueError(f"expected finite rates >= 0, got one of {wrong[0]:.6g}")
        self.clip, self.rho = checked_clip_and_rho(clip_scale, rho)
        self.batch_size = require_count("batch_size", batch_size)
        self._length = Length(len(self.rates))
        check_strategy(strategy, len(self.rates))
        self.strategy = as_wide_float(strategy, "strategy")
        # From the argument, which may have more digits than the kept strategy.
        self._mixing = as_wide_float(noise_mixing(strategy, self.strategy.dtype))

    @classmethod
    def calibrated(
        cls,
        epsilon: ArrayLike | AbstractBudget,
        delta: ArrayLike | None = None,
        *,
        rates: Float[Any, " steps"],
        clip_scale: ArrayLike,
        batch_size: int,
        strategy: Float[Any, "steps steps"],
        records_per_person: int = 1,
    ) -> "CorrelatedDPSGD":
        """The algorithm with the least noise for which all iterates are proved (epsilon, delta)-DP.

        `account` of the result is never above epsilon; a traced rho is 0.2 % smaller for that (1e-6
        in float64).

        Args:
            epsilon, delta: the budget; epsilon > 0 and finite, delta in (0, 1). Or, without delta,
                a budget such as `jaxdp.privacy.MembershipAdvantage(0.1)`.
            rates, clip_scale, batch_size, strategy: see the constructor.
            records_per_person: largest number of records of one person, public; default 1.

        Warns:
            UserWarning: delta is at least one over the number of samples.
        """
        budget = budget_of(epsilon, delta)
        rho = largest_rho(budget, records_per_person)
        found = cls(rates, clip_scale, rho, batch_size=batch_size, strategy=strategy)
        warn_of_budget(budget, persons(found.num_records, records_per_person), stacklevel=2)
        return found

    @property
    def mixing(self) -> Float[Array, "steps steps"]:
        r"""The matrix that makes $\xi$ of Z: the strategy's inverse, enlarged by its rounding."""
        return self._mixing

    @property
    def is_valid(self):
        rates = in_numpy(self.rates)
        are_rates = ((rates >= 0) & (rates < math.inf)).all()
        are_as_many = self.num_steps == rates.shape[-1] == self._mixing.shape[-1]
        return self._has_enough_noise & are_rates & are_as_many & is_strategy(self.strategy)

    def step_size(self, step):
        return self.rates[jnp.asarray(step) - 1]

    def noise_std(self, step, dim):
        r"""$2C/(B\rho)$, the standard deviation of the fresh noise, equal in every step."""
        std = 2 * self.noise_ratio * jnp.sqrt(jnp.asarray(dim, self.rho.dtype)) / self.batch_size
        return jnp.broadcast_to(std, jnp.shape(step))

    def init(self, parameters):
        fresh = jnp.zeros((self.num_steps, *parameters.shape), parameters.dtype)
        return _DrawnNoise(fresh, jnp.zeros((), jnp.int32))

    def step(self, parameters, state, gradients, smoothness, step_size, noise):
        norms = jnp.sqrt(jnp.sum(gradients**2, axis=-1))
        factors = self.clip.factor(norms, parameters.size)
        # Products at full precision: a rounded sum of clipped gradients is a longer one.
        highest = Precision.HIGHEST
        mean = jnp.tensordot(factors, gradients, norms.ndim, precision=highest) / norms.size
        fresh = state.fresh.at[state.count].set(noise.astype(state.fresh.dtype))
        row = self._mixing[state.count].astype(fresh.dtype)
        correlated = jnp.tensordot(row, fresh, 1, precision=highest)
        return Update(
            parameters - step_size * (mean + correlated),
            _DrawnNoise(fresh, state.count + 1),
            factors < 1,
            jnp.zeros(norms.shape, bool),
        )

    def release(self):
        r"""All iterates: rho-GDP, and exactly so if a column of the strategy has norm 1.

        **Claim.** Let two data sets differ in one record, and let j be the step whose batch it is
        in. Then $T(\theta_{1..K}, \theta'_{1..K}) \ge G(\rho\,|c_j|)$, with $c_j$ column j of the
        strategy C and $|c_j| \le 1$. Here T(P, Q) is the trade-off function of two distributions
        and $G(\mu) = T(N(0, 1), N(\mu, 1))$.

        **Released values.** Let $\tau = 2C_{\mathrm{clip}}/(B\rho)$, $\xi = C^{-1}Z$ and $y_k = g_k
        + \tau\xi_k$. Rates and start are public, and $\theta_k = \theta_{k-1} - \eta_k y_k$, so the
        iterates are computed from $y_1, \dots, y_K$; that cannot lower T. The batches are fixed
        beforehand, and $g_k = g_k(\theta_{k-1})$ reads batch k alone: given its batch it is a
        function of $y_1, \dots, y_{k-1}$.

        **A Gaussian mechanism.** Let $w = Cy$, so that $w_k = \sum_{i \le k} C_{ki} g_i + \tau
        Z_k$. C is public, lower triangular and of positive diagonal, so $w_1, \dots, w_k$ and $y_1,
        \dots, y_k$ are functions of each other for every k, and releasing w is equivalent. Given
        the data and $w_1, \dots, w_{k-1}$, all of $y_1, \dots, y_{k-1}$ and hence $g_1, \dots, g_k$
        are known; and $Z_k$ is independent of $w_1, \dots, w_{k-1}$, which are made of earlier rows
        of Z. So given them $w_k$ is normal with covariance $\tau^2 I$ and mean $m_k = \sum_{i \le
        k} C_{ki} g_i$.

        **The effect of a record.** Let both data sets have given the same $w_1, \dots, w_{k-1}$.
        Then each $g_i$ with $i \ne j$, $i \le k$, is the same function of the same values: equal.
        Only $g_j$ differs, by a vector $h = h(w_1, \dots, w_{j-1})$ that is known from step j on,
        and $|h| \le 2C_{\mathrm{clip}}/B = \tau\rho$: of the B terms of the mean one differs, and
        both are clipped. So $m_k$ differs by $C_{kj}h$, which is 0 for k < j. Step k is a Gaussian
        mechanism whose mean moves by at most $|C_{kj}|\tau\rho$ whatever was released before it: $T
        \ge G(|C_{kj}|\rho)$. Adaptive composition (Dong, Roth and Su (2022), Corollary 3.3) gives
        $G(\rho\sqrt{\sum_k C_{kj}^2}) = G(\rho|c_j|)$ for all steps.

        **It is attained** if $|c_j| = 1$, the rates are positive and the record's two gradients are
        clipped to opposite vectors at every iterate: h is then one vector of full length, and along
        $h \otimes c_j$ the distributions of w are normal, $\rho$ apart.

        **In the machine** M replaces $C^{-1}$, and C is to be read as the exact inverse of M's
        entries: `jaxdp.privacy.strategies.noise_mixing` enlarges M until the columns of that
        inverse are proved to have norm at most 1. M is checked again here, as it may come from a
        traced strategy or have been set: if a column may be longer, the claim is as many times rho,
        and infinite if nothing bounds it.

        Derived: the argument is that of Denisov, McMahan, Rush, Smith and Thakurta (2022) for a
        single participation, in trade-off functions. test_correlated_dp_sgd.py audits the pair that
        attains it.
        """
        unchecked = (
            "the strategy was traced, so that its inverse was not checked in float64: the bound on "
            "its columns was computed in the strategy's own type",
        )
        rho = self._proved(self.rho)
        if not np.ndim(rho):
            known, longest = concrete(rho), longest_column_of(self._mixing)
            rho = (rho if known is None else known) * longest
        return Release(
            what="one-pass DP-SGD with correlated noise, all iterates",
            adjacency=REPLACE_ONE,
            mechanism=GaussianMechanism(rho),
            assumptions=(
                "all iterates may be released, and one chosen among them; the noise as it was "
                "drawn, which the state of a run holds, may not",
                "every sample is used once, in a batch that is fixed before the pass",
                "choosing rates, clip scale, strategy, initial risk or noise level from the data, "
                "or centring and scaling the data by itself, is not included",
                "noise is made of exact Gaussian numbers of the stated standard deviation: a "
                "simulated run draws them and adds them up in floating point",
                *(unchecked if isinstance(self._mixing, Tracer) else ()),
            ),
            num_records=self.num_records,
        )

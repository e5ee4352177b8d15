"""One-pass DP-SGD with clipped gradients, capped steps and the noise of AC equation (2)."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax.lax import Precision
from jaxtyping import Array, ArrayLike, Float, Int

from jaxdp.algorithms.base import Length, Update, as_length
from jaxdp.algorithms.calibration import AbstractRhoPass, checked_clip_and_rho, largest_rho
from jaxdp.clipping.norm_clip import NormClip
from jaxdp.core.checks import concrete, require_count
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.arguments import persons
from jaxdp.privacy.budgets import AbstractBudget, budget_of, warn_of_budget
from jaxdp.privacy.mechanisms import GaussianMechanism
from jaxdp.privacy.release import PublishedConversion, Release
from jaxdp.schedules import AbstractSchedule
from jaxdp.schedules.base import is_checked, is_non_increasing, require_non_increasing
from jaxdp.schedules.callables import as_schedule


class OnePassDPSGD(AbstractRhoPass):
    r"""AC Algorithm 1: each sample is used once, and only the last iterate is released.

    With $\eta_k = \tilde\eta(k/K)/K$ and $C = c\sqrt d$, for k = 1, ..., K:

        g_k     = gradient of sample k at theta_(k-1)
        theta_k = theta_(k-1) - min(eta_k, 2/L_k) min(1, C/|g_k|) g_k + 2 C sigma_k b_k

    where L_k is the gradient's Lipschitz constant ($\|x_k\|^2$ for least squares), b_k standard
    normal, and $\rho^2\sigma_k^2 = \eta_k^2 - \eta_{k+1}^2$ for k < K, $\rho^2\sigma_K^2 =
    \eta_K^2$. The noise is set by $\eta_k$, not by the capped step. With batch_size B, step k
    averages the B clipped gradients, each with its own capped step, and adds noise 2 C sigma_k / B;
    then $\gamma = d/(KB)$. The paper proves $(\rho^2/2)$-zCDP; `release` proves more, $\rho$-GDP.

    Source: AC Algorithm 1, equation (2); Assumption 2 with $\tilde\eta(k/n)$ where
    $\tilde\eta(\lfloor k/n\rfloor)$ is printed, which would be 0/1-valued.

    Args:
        learning_rate: $\tilde\eta$, non-increasing on [0, 1]: a schedule, a number, or a callable
            of t. A function of steps, such as an optax schedule, is `jaxdp.FromSteps`.
        clip_scale: c > 0; infinite only together with rho.
        rho: the output is $\rho$-GDP, hence $(\rho^2/2)$-zCDP and not $\rho$-zCDP; > 0, infinite
            for no noise.
        num_steps: K; a Python int to simulate, possibly traced to predict.
        batch_size: B, samples per step.

    Raises:
        ValueError: a value is out of range, or the schedule increases.

    Example:
        >>> import jaxdp
        >>> rate = jaxdp.Polynomial(3.0, power=0.5)
        >>> algorithm = jaxdp.OnePassDPSGD(rate, clip_scale=1.0, rho=1.0, num_steps=1000)
        >>> print(f"epsilon = {jaxdp.account(algorithm, delta=1e-5).epsilon:.2f}")
        epsilon = 4.38
    """

    releases_every_iterate: ClassVar[bool] = False
    learning_rate: AbstractSchedule
    clip: NormClip
    rho: Float[Array, ""]
    batch_size: int = eqx.field(static=True)
    _length: Length | Int[Array, ""]

    def __init__(
        self,
        learning_rate: AbstractSchedule | Callable[[Any], Any] | ArrayLike,
        clip_scale: ArrayLike,
        rho: ArrayLike,
        num_steps: int | Int[Array, ""],
        *,
        batch_size: int = 1,
    ):
        self.learning_rate = as_schedule(learning_rate)
        self.clip, self.rho = checked_clip_and_rho(clip_scale, rho)
        self.batch_size = require_count("batch_size", batch_size)
        self._length = as_length(num_steps)
        known = concrete(self.num_steps)
        require_non_increasing(self.learning_rate, None if known is None else int(known))

    @classmethod
    def calibrated(
        cls,
        epsilon: ArrayLike | AbstractBudget,
        delta: ArrayLike | None = None,
        *,
        learning_rate: AbstractSchedule | Callable[[Any], Any] | ArrayLike,
        clip_scale: ArrayLike,
        num_steps: int | Int[Array, ""],
        batch_size: int = 1,
        records_per_person: int = 1,
    ) -> "OnePassDPSGD":
        """The algorithm with the least noise that is proved (epsilon, delta)-DP.

        `account` of the result is never above epsilon; a traced rho is 0.2 % smaller for that (1e-6
        in float64).

        Args:
            epsilon, delta: the budget; epsilon > 0 and finite, delta in (0, 1). Or, without delta,
                a budget such as `jaxdp.privacy.MembershipAdvantage(0.1)`.
            learning_rate, clip_scale, num_steps, batch_size: see the constructor.
            records_per_person: largest number of records of one person, public; default 1.

        Warns:
            UserWarning: delta is at least one over the number of samples.
        """
        budget = budget_of(epsilon, delta)
        rho = largest_rho(budget, records_per_person)
        found = cls(learning_rate, clip_scale, rho, num_steps, batch_size=batch_size)
        warn_of_budget(budget, persons(found.num_records, records_per_person), stacklevel=2)
        return found

    @property
    def is_valid(self):
        in_range = self._has_enough_noise & self.has_length
        known = concrete(self.num_steps)
        steps = None if known is None or known.ndim else int(known)
        return is_non_increasing(self.learning_rate, steps) & in_range

    def step_size(self, step):
        """eta_k, before the caps of the samples."""
        return self._rate(step) / self.num_steps

    def _rate(self, step: Int[Any, "*shape"] | int) -> Float[Array, "*shape"]:
        """The learning rate at a step; 0 if its square, which sets the noise, would underflow."""
        rate = self.learning_rate.at_step(step, self.num_steps)
        limits = jnp.finfo(rate.dtype)
        # Each of the steps to come may lose a square of `tiny`.
        floor = jnp.sqrt(self.num_steps * (limits.tiny / limits.eps))
        return jnp.where(rate < floor, 0, rate)

    def squared_rate_drop(self, step: Int[Any, "*shape"] | int) -> Float[Array, "*shape"]:
        r"""$\rho^2 K^2 \sigma_k^2$, the fall of $\tilde\eta^2$. Source: AC equation (2)."""
        square = self._rate(step) ** 2
        drop = self.learning_rate.squared_drop(step, self.num_steps)
        # Rounding may leave a constant stretch slightly negative.
        rounding = -8 * jnp.finfo(drop.dtype).eps * square
        drop = jnp.where((drop < 0) & (drop >= rounding), 0, drop)
        is_last = (step == self.num_steps) | (self._rate(step + 1) == 0)
        return jnp.where(is_last, square, drop)

    def noise_std(self, step, dim):
        r"""$2 C \sigma_k / B$; NaN if a traced schedule increases."""
        drop = self.squared_rate_drop(step)
        is_zero = drop == 0
        root = jnp.where(is_zero, 0, jnp.sqrt(jnp.where(is_zero, 1, drop)))
        scale = 2 * self.noise_ratio * jnp.sqrt(jnp.asarray(dim, drop.dtype))
        return scale * root / (self.num_steps * self.batch_size)

    def init(self, parameters):
        return None

    def step(self, parameters, state, gradients, smoothness, step_size, noise):
        norms = jnp.sqrt(jnp.sum(gradients**2, axis=-1))
        factors = self.clip.factor(norms, parameters.size)
        steps = jnp.minimum(step_size, 2 / smoothness)
        # Products at full precision: a rounded sum of clipped gradients is a longer one.
        weights, highest = steps * factors, Precision.HIGHEST
        descent = jnp.tensordot(weights, gradients, norms.ndim, precision=highest) / norms.size
        return Update(parameters - descent + noise, state, factors < 1, steps < step_size)

    def release(self):
        r"""The last iterate: exactly rho-GDP, for every non-increasing schedule.

        **Claim.** Let two data sets differ in one record, and let step j be the one that uses it.
        Write step k on the first as $X_k = \phi_k(X_{k-1}) + \tau_k b_k$ and on the second as
        $X'_k = \phi'_k(X'_{k-1}) + \tau_k b'_k$, with $b_k, b'_k$ standard normal, $\tau_k =
        2C\sigma_k/B$ and both from the same start. Then $T(X_K, X'_K) \ge G(\rho)$. Here T(P, Q)
        is the trade-off function of two distributions (the least error of the second kind at each
        level of the first), $G(\mu) = T(N(0, 1), N(\mu, 1))$, and larger is more private.

        **Properties of the maps.** (a) $\phi_k = \phi'_k$ for $k \ne j$. (b) $|\phi_j(\theta) -
        \phi'_j(\theta)| \le s_j = 2C\eta_j/B$ at every $\theta$: of the B terms averaged one
        differs, and each is at most $\eta_j C$ long. (c) $\phi_k$ is non-expansive for $k > j$. A
        gradient is $x\,s(x \cdot \theta)$ with s non-decreasing and l-Lipschitz. Clipped it is
        $x\,c(x \cdot \theta)$ where c is s cut at $\pm C/|x|$: non-decreasing and l-Lipschitz
        too. A sample's map $\theta - \eta\,x\,c(x \cdot \theta)$ keeps the part orthogonal to x
        and takes $u = x \cdot \theta$ to $u - \eta|x|^2 c(u)$, of slope between $1 -
        \eta\,l|x|^2$ and 1; with the cap $\eta \le 2/L$, $L \ge l|x|^2$, it is at least -1. The
        cap reads its own sample only, and an average of non-expansive maps is non-expansive.

        **Three facts** (Dong, Roth and Su 2022). (i) Processing both outcomes in one way,
        with fresh randomness or none, cannot lower T. (ii) If $T(Y, Y') \ge G(\mu_1)$ and,
        given that both are y, $T(W, W') \ge G(\mu_2)$ for every y, then $T((Y, W), (Y', W')) \ge
        G(\sqrt{\mu_1^2 + \mu_2^2})$: adaptive composition, and $G(\mu_1) \otimes G(\mu_2) =
        G(\sqrt{\mu_1^2 + \mu_2^2})$. (iii) $T(h + \tau b, \tau b) = G(|h|/\tau)$ for a vector h.

        **An interpolation.** Let $\tilde X_k = X_k$ for $k < j$ and, with the noise $b_k$ of X,

            \tilde X_k = \phi'_k(\tilde X_{k-1}) + h_k + \tau_k b_k,
            h_k = \lambda_k (\phi_k(X_{k-1}) - \phi'_k(\tilde X_{k-1})),  0 <= \lambda_k <= 1.

        $\tilde X$ takes the steps of X' and is shifted toward X by $h_k$. The noise cancels in $X_k
        - \tilde X_k = (1 - \lambda_k)(\phi_k(X_{k-1}) - \phi'_k(\tilde X_{k-1}))$, whose bracket is
        at most $e_j = s_j$ long at step j by (b), where $\tilde X_{j-1} = X_{j-1}$ is one point,
        and afterwards at most $e_k = e_{k-1} - a_{k-1}$ by (a) and (c). Here $\lambda_k = a_k/e_k$
        (0 where $e_k = 0$) for shares $a_k \ge 0$ whose sum is $s_j$, so that $|h_k| \le a_k$ and
        the distance that is left at the end is 0: $\tilde X_K = X_K$.

        **Each share costs $a_k/\tau_k$.** $h_k$ depends on $\tilde X_{k-1}$ and on the past, not
        on $b_k$. Suppose $T(\tilde X_{k-1}, X'_{k-1}) \ge G(\mu)$. Draw h with $X'_{k-1}$ from the
        conditional distribution of $h_k$ given $\tilde X_{k-1}$; by (i) the pairs are no easier to
        distinguish. Given both, $h + \tau_k b_k$ against $\tau_k b'_k$ costs $|h|/\tau_k \le
        a_k/\tau_k$ by (iii). By (ii), and by (i) for $(y, h, w) \mapsto \phi'_k(y) + w$, it
        follows that $T(\tilde X_k, X'_k) \ge G(\sqrt{\mu^2 + a_k^2/\tau_k^2})$. A step without
        noise takes no part: $a_k = 0$, $h_k = 0$, and (i) alone is used. At $k = j - 1$ both
        distributions are one and $\mu = 0$. In all $\mu^2 = \sum_{k \ge j} a_k^2/\tau_k^2$.

        **The shares.** With $S_j = \sum_{k \ge j} \sigma_k^2$ and $a_k = s_j\sigma_k^2/S_j$ (the
        best choice, by Cauchy and Schwarz) $\mu^2 = s_j^2/((2C/B)^2 S_j) = \eta_j^2/S_j$. By AC
        equation (2) the sum telescopes to $S_j = \eta_j^2/\rho^2$: $\mu = \rho$ for every record.
        If rounding lifts a rate, $\sigma_k^2$ is 0 and not negative, which adds to $S_j$.
        If $\eta_j = 0$ the record moves nothing, $X_K$ and $X'_K$ have one distribution. If every
        gradient is clipped along one direction the maps are translations, and for the first
        record $\rho$ is attained; later ones are hidden by the noise before them as well.

        Derived: the argument is that of Bok, Su and Altschuler (2024), "Shifted interpolation for
        differential privacy", with shares that follow AC equation (2). The claim contains AC
        Proposition 2, $(\rho^2/2)$-zCDP. tests/unit/privacy/batches/test_shifted_interpolation.py
        computes the divergence of neighbours by quadrature, with the cap and without;
        tests/unit/privacy/test_accounting.py audits the pair that attains it.
        """
        rho = self._proved(self.rho)
        known = concrete(rho)
        unchecked = (
            "the learning rate rises at no step: not all were checked, as they are traced or more "
            "than 2^22 (if it rises, noise and iterate are NaN)",
        )
        return Release(
            what="one-pass DP-SGD, last iterate",
            adjacency=REPLACE_ONE,
            mechanism=GaussianMechanism(rho),
            published=PublishedConversion((rho if known is None else known) ** 2 / 2),
            assumptions=(
                "only the last iterate is released: no other iterate, no early stopping, no "
                "choice between runs",
                "every sample is used once and its step is capped at 2 over its smoothness "
                "(2/|x|^2 for least squares); without the cap the proof fails",
                "a sample's gradient is x times a non-decreasing function of x.theta (squared, "
                "Huber, logistic loss); several outputs clipped on their joint norm (softmax) are "
                "not covered",
                "choosing learning rate, clip scale, initial risk or noise level from the data, or "
                "centring and scaling the data by itself, is not included",
                "noise is an exact Gaussian of the stated standard deviations: a simulated run "
                "computes them, draws it and adds it in floating point",
                *(() if is_checked(self.learning_rate, self.num_steps) else unchecked),
            ),
            num_records=self.num_records,
        )

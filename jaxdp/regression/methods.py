"""Methods to learn a private linear function: their releases, in order, and public shares."""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from jaxdp.core.checks import require_kind
from jaxdp.core.description import AbstractDescription
from jaxdp.kernels import ClippedFeatures, IdentityFeatures, PrivateKernelClassifier
from jaxdp.kernels.margin.learners import AbstractObjectiveLearner
from jaxdp.kernels.margin.stated_constants import on_host
from jaxdp.losses import Huber, Logistic, Softmax
from jaxdp.privacy import Composition, GaussianMechanism, gaussian_epsilon
from jaxdp.regression.descent import (
    AbstractSlopes,
    SquaredSlopes,
    Stage,
    num_scales,
    private_descent,
)
from jaxdp.regression.descent_plan import (
    SIGNAL,
    SQUARED,
    Curvature,
    DescentPlan,
    Spectrum,
    normal_law,
    planned,
    shrunk,
)
from jaxdp.regression.known import Learnt, learnt_weights
from jaxdp.regression.ledger import Ledger
from jaxdp.regression.private_sums import PrivateRows, released_gradient, released_second_moments
from jaxdp.regression.structure import Structure


class AbstractMethod(AbstractDescription):
    """A method to learn the weights of a linear function from private rows."""

    @abc.abstractmethod
    def learnt(self, rows: PrivateRows, slopes: AbstractSlopes, ledger: Ledger) -> Learnt:
        """The released weights of the features over their bound; spends the rest of the ledger."""


_ROUNDS = 0.1, 0.3, 0.6  # shares of the second moments' budget; later rounds have less noise
# If even the whole budget leaves noise of this many mean eigenvalues, moments get a little of it,
# for their trace, and one release of the residuals' scale is enough (chosen on Gaussian designs).
_NOISE, _LITTLE = 3.0, 0.05
_ROOM = 2.0  # rows are clipped at the root of this many times their mean square in the last round
_NOTHING = 50.0  # n mu below which the labels' mean alone is learnt
_FIRST = 0.3  # share of the first of two descents in the budget of both
_LEAST_SIGNAL, _MOST_SIGNAL = 0.02, 0.9  # of the error that the second one assumes
# Whether curves are worth their noise is tested after a descent of lines, if n mu is so many times
# the number of functions in the test. Shares: of the test and of the curves' second moments in the
# budget of the descents, and of the test's moments in that of all moments.
_WORTH = 8.0
_TEST, _OF_CURVES, _OF_TEST = 0.06, 0.08, 0.1
_GUESS = 0.03, 0.25  # of the variance that curves explain beyond lines, and the guess's deviation
# The signal that the descent of curves assumes: at least the first number, and the second times
# what they explain, since directions of few rows, which are learnt last, have most of it.
_LEFT = 1.0, 4.0
# All were chosen on the first six tables of the leaderboard and on simulated tables.
_LEAST_MODE = 0.05  # of a whitened direction that a test divides by


def _spectrum_in_rounds(
    release: Callable[..., tuple[np.ndarray, float]],
    bound: float,
    base: Float[np.ndarray, "modes features"],
    mu: float,
    shares: tuple[float, ...],
    values: Float[np.ndarray, "seen modes"] | None = None,
) -> tuple[Spectrum, Float[np.ndarray, "2 seen"]]:
    r"""A noisy spectrum of the rows, in coordinates in which it is nearly flat.

    Each round's coordinates are $(\Sigma + \tau)^{-1/2}$ of the last one's, with $\tau$ its noise:
    the common part of rows, which hides their differences in noise, is reduced. Also returned are
    the mean square of each feature, or of `values` times the first coordinates, over all rounds,
    and the deviations of their noise.
    Source: Biswas, Dong, Kamath and Ullman (2020), "CoinPress", with clipped moments.
    """
    clip_norm, first = bound * (1 + 1e-6), np.linalg.pinv(base)
    values = first if values is None else values
    sums = np.zeros((2, 1))
    for place, share in enumerate(shares):
        of_a_round = mu * math.sqrt(share) * (1 - 1e-12)
        moments, std = release(of_a_round, base, clip_norm)
        spectrum = shrunk(moments, std, base)
        back = values @ np.linalg.inv(base @ first)
        precision = np.maximum(std * np.sum(back**2, axis=1), 1e-300) ** -2.0
        sums = sums + np.stack([np.sum((back @ moments) * back, axis=1) * precision, precision])
        if place + 1 < len(shares):
            damped = spectrum.values + std * math.sqrt(len(base))
            base = (spectrum.vectors / np.sqrt(damped)).T @ base
            clip_norm = math.sqrt(_ROOM * float(np.sum(spectrum.values / damped)))
    return spectrum, np.stack([sums[0] / sums[1], sums[1] ** -0.5])


class _Spending(NamedTuple):
    """Budget share of the moments, shares of their rounds, and number of scale releases."""

    moments_share: float
    rounds: tuple[float, ...]
    num_scales: int


class AbstractDescentMethod(AbstractMethod):
    r"""A private descent whose settings are planned from a noisy spectrum of the features.

    The coordinates are $P = (\Sigma + \tau)^{-1/2}$; `jaxdp.regression.descent_plan` chooses
    $\tau$, the number of steps, the rate and the clip norm. With a finite $\tau$ the moments are
    learnt in three rounds, each in the coordinates of the last; or in one, for a twentieth of the
    budget, if by n, p and $\mu$ moments would be noise. Least squares take two descents, the second
    planned for the residuals that the first one leaves. If curves are tested, lines are learnt
    first, and the test of smooth curves comes before the second descent.
    """

    moments_share: eqx.AbstractClassVar[float]  # largest share of mu^2 for the second moments
    # Choices of tau, in units of the noise in an eigenvalue; infinity for P = 1.
    dampings: eqx.AbstractClassVar[tuple[float, ...]]
    momenta: eqx.AbstractClassVar[tuple[float, ...]]  # choices of the momentum
    is_one_pass: ClassVar[bool] = False  # whether every step has its own rows

    def _spending(self, num_features: int, num_samples: int, mu: float) -> _Spending:
        """Choose by public numbers alone."""
        # Noise of sqrt(2) / (n mu) on the diagonal moves eigenvalues by up to sqrt(2 p) times that.
        # Their mean is 1 / (2 p) for rows of half the largest square.
        edge = math.sqrt(2 * num_features) * math.sqrt(2) / (num_samples * mu)
        if edge > _NOISE * 0.5 / num_features:
            return _Spending(min(self.moments_share, _LITTLE), (1.0,), 1)
        whitens = min(self.dampings) < math.inf
        rounds = _ROUNDS if whitens else (1.0,)
        return _Spending(self.moments_share, rounds, num_scales(num_samples, mu))

    def predicted_risk(
        self,
        *,
        num_features: int,
        num_outputs: int,
        num_samples: int,
        mu: float,
        curvature: Curvature,
        scale_share: float,
        other_share: float,
        signal: float,
    ) -> float:
        """Guess the planned excess risk over the labels' variance, before any data.

        `scale_share` and `other_share` are budget shares of a release of the residuals' scale and
        of releases before the descent; features explain the share `signal` of the variance.
        """
        # Rows of half the largest square, and equal features. One of p features represents all: its
        # risk is that of each, with p times less squared clip norm and p times fewer noisy weights.
        values = np.array([0.5 / num_features])
        spending = self._spending(num_features, num_samples, mu)
        share = 1 - spending.moments_share - scale_share - other_share
        options = self._options(num_samples, num_outputs * num_features**2, curvature)
        return planned(
            Spectrum(values, np.eye(1), values, 1e-4 / num_features, np.eye(1)),
            mu=mu * math.sqrt(share),
            signal=signal,
            **options,
        ).predicted_risk

    def learnt(self, rows, slopes, ledger):
        num_rows, structure = len(rows.units), rows.structure
        base, lines = structure.basis, structure.lines
        if is_hopeless(num_rows, ledger.mu) and structure.constant:
            slopes.begin(ledger, rows.source, 0, True)
            nothing = np.zeros((base.shape[1], slopes.num_outputs))
            return Learnt(nothing, nothing[:, 0], None, slopes.offset)
        tests = [] if lines is None or self.is_one_pass else lines.curves
        tests = [one @ base for one in tests if can_test(len(one), num_rows, ledger.mu)]
        if lines is not None:
            base = lines.rows @ base
        spending = self._spending(len(base), num_rows, ledger.mu)
        slopes.begin(ledger, rows.source, spending.num_scales, structure.constant > 0)
        spent = ledger.spend("second moments of the features", spending.moments_share)
        release, bound = functools.partial(released_second_moments, rows), structure.bound
        smooth = None
        if tests:
            own = spent * math.sqrt(_OF_TEST) * (1 - 1e-12)
            spent *= math.sqrt(1 - _OF_TEST) * (1 - 1e-12)
            rounds = self._spending(len(tests[0]), num_rows, ledger.mu).rounds
            smooth, _ = _spectrum_in_rounds(release, bound, tests[0], own, rounds)
        values = None if lines is None else lines.values
        spectrum, squares = _spectrum_in_rounds(
            release, bound, base, spent, spending.rounds, values
        )
        words = "each of rows of its own" if self.is_one_pass else "each of all rows"
        words += ", a test of curves, and second moments for them if they are better" * bool(tests)
        mu = ledger.spend_rest(f"clipped gradients, {words}")
        options = self._options(num_rows, slopes.num_outputs, slopes.curvature)
        stages: list[Stage] = []
        weights, signal, size = None, SIGNAL, 1.0
        shares = (1.0,) if self.is_one_pass or slopes.num_stages == 1 else (_FIRST, 1 - _FIRST)
        shares = (_FIRST, 1 - _FIRST - _TEST) if tests else shares
        for number, share in enumerate(shares):
            own = rows._replace(source=rows.source.hiding("stage", number))
            found = slopes.enter(own, weights, number, len(shares))
            of_stage = mu * math.sqrt(share) * (1 - 1e-12)
            if stages:
                # The error that is left, over the variance of the slopes.
                signal = 2 * stages[-1].plan.predicted_risk * (size / found) ** 2
                signal = min(max(signal, _LEAST_SIGNAL), _MOST_SIGNAL)
            if smooth is not None and weights is not None:
                of_test = mu * math.sqrt(_TEST) * (1 - 1e-12)
                gain = _gain_of_curves(own, slopes, weights, smooth, found, of_test)
                of_rest = mu * math.sqrt(share - _OF_CURVES) * (1 - 1e-12)
                straight = planned(spectrum, mu=of_stage, signal=_LEAST_SIGNAL, **options)
                if _are_worth_it(gain, straight, structure, options | {"mu": of_rest}):
                    of_curves = mu * math.sqrt(_OF_CURVES) * (1 - 1e-12)
                    spending = self._spending(len(structure.basis), num_rows, ledger.mu)
                    release = functools.partial(released_second_moments, own)
                    found_of_curves = _spectrum_in_rounds(
                        release, bound, structure.basis, of_curves, spending.rounds
                    )
                    (spectrum, squares), lines, of_stage = found_of_curves, None, of_rest
                    signal = max(_LEFT[0], _LEFT[1] * gain)
            size = found
            plan = planned(spectrum, mu=of_stage, signal=signal, **options)
            stages.append(private_descent(own, slopes, plan, of_stage, weights))
            weights = stages[-1].weights
        given = (structure, squares, num_rows, slopes.offset)
        if lines is None:
            return learnt_weights(stages, spectrum, *given)
        given = (lines.structure, *given[1:], lines.weights)
        return learnt_weights(stages, spectrum, *given)._replace(is_straight=True)

    def expected_errors(
        self,
        structure: Structure,
        moments: Float[np.ndarray, "features features"],
        *,
        num_samples: int,
        mu: float,
        sizes: tuple[float, float],
        scale_share: float,
    ) -> Learnt:
        """Predict the errors of a regression: the result of `learnt`, with zeros for the weights.

        Args:
            structure: public facts about the features.
            moments: assumed second moments of the features over their bound.
            num_samples, mu: number of rows, and the budget.
            sizes: standard deviations of the residuals at the start of both descents.
            scale_share: budget share of the releases of the scale.
        """
        basis = structure.basis
        spending = self._spending(len(basis), num_samples, mu)

        def release(mu, base, clip_norm):
            return base @ moments @ base.T, math.sqrt(2) * clip_norm**2 / (mu * num_samples)

        spent = mu * math.sqrt(spending.moments_share)
        spectrum, squares = _spectrum_in_rounds(
            release, structure.bound, basis, spent, spending.rounds
        )
        left = mu * math.sqrt(1 - spending.moments_share - scale_share)
        is_single = self.is_one_pass or spending.num_scales == 1
        shares = (1.0,) if is_single else (_FIRST, 1 - _FIRST)
        stages: list[Stage] = []
        signal, nothing = SIGNAL, np.zeros((len(basis), 1))
        for size, share in zip(sizes, shares, strict=False):
            if stages:
                signal = 2 * stages[-1].plan.predicted_risk * (sizes[0] / size) ** 2
                signal = min(max(signal, _LEAST_SIGNAL), _MOST_SIGNAL)
            of_stage = left * math.sqrt(share)
            options = self._options(num_samples, 1, SQUARED)
            plan = planned(spectrum, mu=of_stage, signal=signal, **options)
            std = 2 * plan.clip * size * plan.typical_norm / (num_samples * of_stage)
            std *= plan.num_steps if plan.is_one_pass else math.sqrt(plan.num_steps)
            bend, square = normal_law(plan.clip)
            start = np.zeros((basis.shape[1], 1)) if stages else None
            law = bend, square * size**2, bend
            stages.append(Stage(plan, nothing, np.full(plan.num_steps, std), *law, start))
        return learnt_weights(stages, spectrum, structure, squares, num_samples, np.zeros(1))

    def _options(self, num_samples: int, num_outputs: int, curvature: Curvature) -> dict[str, Any]:
        """The arguments that all plans of a fit share."""
        return {
            "num_samples": num_samples,
            "curvature": curvature,
            "dampings": self.dampings,
            "momenta": self.momenta,
            "num_outputs": num_outputs,
            "is_one_pass": self.is_one_pass,
        }


def can_test(num_features: int, num_samples: int, mu: float) -> bool:
    """Whether a test of this many functions can tell curves from lines, by public numbers."""
    return num_samples * mu >= _WORTH * num_features


def is_hopeless(num_samples: int, mu: float) -> bool:
    """Whether a fit learns the labels' mean alone, by public numbers."""
    return num_samples * mu < _NOTHING


def _are_worth_it(
    gain: float, straight: DescentPlan, structure: Structure, options: dict[str, Any]
) -> bool:
    """Whether curves that explain more by `gain` are better than lines, as planned."""
    # Rows of half the largest square and equal features.
    size = len(structure.basis)
    values = np.full(size, 0.5 * structure.bound**2 / size)
    flat = Spectrum(values, np.eye(size), values, 1e-4 / size, np.eye(size))
    bent = planned(flat, signal=gain + _LEAST_SIGNAL, **options)
    return 2 * bent.predicted_risk < 2 * straight.predicted_risk + gain


def _gain_of_curves(
    rows: PrivateRows,
    slopes: AbstractSlopes,
    weights: Float[np.ndarray, "features outputs"],
    smooth: Spectrum,
    scale: float,
    mu: float,
) -> float:
    """Release a gradient, and tell from it how much variance curves explain beyond lines.

    In units of the slopes' variance, drawn to a guess by the noise.
    """
    lines = rows.structure.lines
    assert lines is not None
    rows = rows._replace(source=rows.source.hiding("test"))
    damped = smooth.values + smooth.noise
    transform = (smooth.vectors / np.sqrt(damped)).T @ smooth.base
    modes = smooth.values / damped
    typical, clip = math.sqrt(modes.sum()), min(1.0, max(slopes.curvature.clips))
    gradient, std = released_gradient(
        rows,
        slopes.of(rows.times(weights)),
        transform,
        rows.norms(transform),
        clip_norm=clip * scale * typical,
        typical_norm=typical,
        mu=mu,
    )
    # In white directions a gradient is the error times the curvature. Errors of lines are removed.
    roots = np.sqrt(np.maximum(modes, _LEAST_MODE))[:, None]
    straight = np.linalg.pinv(transform.T) @ np.linalg.pinv(rows.structure.basis)
    straight = np.sqrt(modes)[:, None] * (straight @ lines.rows.T)
    span, _ = np.linalg.qr(straight)
    part, noise = gradient / roots, std / roots
    part = part - span @ (span.T @ part)
    unit = (slopes.curvature.share(clip) * scale) ** 2
    expected = float(np.sum(noise**2) - np.sum((span * noise) ** 2)) * part.shape[1]
    freedom = max((len(part) - span.shape[1]) * part.shape[1], 1)
    found = (float(np.sum(part**2)) - expected) / unit
    variance = 2 * (expected / unit) ** 2 / freedom
    guess, spread = _GUESS
    return max(0.0, (found / variance + guess / spread**2) / (1 / variance + 1 / spread**2))


class Automatic(AbstractDescentMethod):
    """The descent of least predicted risk: whitened or not, with momentum or without.

    Example:
        >>> from jaxdp.regression import Automatic
        >>> Automatic().moments_share
        0.2
    """

    moments_share: ClassVar[float] = 0.2
    dampings: ClassVar[tuple[float, ...]] = 1.0, 3.0, 10.0, math.inf
    momenta: ClassVar[tuple[float, ...]] = 0.0, 0.8


class Whitened(AbstractDescentMethod):
    """A descent in coordinates in which the noisy second moments are near one.

    Example:
        >>> from jaxdp.regression import Whitened
        >>> Whitened().moments_share
        0.2
    """

    moments_share: ClassVar[float] = 0.2
    dampings: ClassVar[tuple[float, ...]] = 1.0, 3.0, 10.0
    momenta: ClassVar[tuple[float, ...]] = (0.0,)


class FullBatch(AbstractDescentMethod):
    """A descent in the features' own coordinates, with momentum; second moments set its step size.

    Example:
        >>> from jaxdp.regression import FullBatch
        >>> FullBatch().moments_share
        0.05
    """

    moments_share: ClassVar[float] = 0.05
    dampings: ClassVar[tuple[float, ...]] = (math.inf,)
    momenta: ClassVar[tuple[float, ...]] = (0.9,)


class PlannedDPSGD(AbstractDescentMethod):
    """One pass: every row is used in one step, whose noise alone has to hide it.

    Steps follow the table's order: if it is sorted by label or time, the last rows count more.

    Example:
        >>> from jaxdp.regression import PlannedDPSGD
        >>> PlannedDPSGD().moments_share
        0.05
    """

    moments_share: ClassVar[float] = 0.05
    dampings: ClassVar[tuple[float, ...]] = (math.inf,)
    momenta: ClassVar[tuple[float, ...]] = (0.0,)
    is_one_pass: ClassVar[bool] = True


class NoisyStatistics(AbstractMethod):
    r"""Ridge regression on noisy second moments and a noisy correlation with the labels.

    The ridge is the noise in an eigenvalue of the moments, about $\sigma\sqrt{2 p}$ at the edge of
    its spectrum.

    Example:
        >>> from jaxdp.regression import NoisyStatistics
        >>> NoisyStatistics()
        NoisyStatistics()
    """

    def learnt(self, rows, slopes, ledger):
        if not isinstance(slopes, SquaredSlopes):
            raise ValueError("expected a method for classes, got NoisyStatistics, for regression")
        size = rows.units.shape[1]
        moments, std = released_second_moments(rows, ledger.spend("second moments", 0.5))
        mu = ledger.spend_rest("correlation of features and labels")
        one, norms = np.eye(size), np.ones(len(rows.units))
        start = slopes.of(rows.times(np.zeros((size, 1))))
        gradient, _ = released_gradient(
            rows, start, one, norms, clip_norm=1.0, typical_norm=1.0, mu=mu
        )
        values, vectors = np.linalg.eigh(moments)
        damped = np.maximum(values, 0.0) + std * math.sqrt(2 * size)
        inverse = (vectors / damped) @ vectors.T
        # From the correlation alone, with sensitivity 2.
        noise_std = 2 / (mu * len(rows.units)) * np.linalg.norm(inverse, axis=1)
        return Learnt(-inverse @ gradient, noise_std)


class HuberLearner(AbstractObjectiveLearner):
    """Objective perturbation with Huber's loss of f(x) - y, for labels in [-1, 1]."""

    loss: Huber = eqx.field(kw_only=True, converter=on_host)

    def __check_init__(self):
        require_kind("loss", self.loss, Huber, "Huber's loss, such as jaxdp.losses.Huber(1.0)")

    def _labels_within(self):
        return 1.0


class ObjectivePerturbation(AbstractMethod):
    r"""The minimiser of an objective with a random linear term: Huber's loss, or the loss of
    classes.

    *Proof.* As in `jaxdp.kernels.margin.learners`, for features that are a row itself, of norm at
    most one in exact arithmetic; it is $(\epsilon, \delta)$-DP, not Gaussian DP. The sensitivity is
    that of a slope times a row: twice Huber's width, 2 for two classes, $2 \sqrt 2$ for more.
    Earlier releases take their epsilon at half of delta; the objective has the rest of epsilon at
    the other half.

    Huber's loss estimates the mean only of labels with symmetric residuals.

    Example:
        >>> from jaxdp.regression import ObjectivePerturbation
        >>> ObjectivePerturbation().width
        0.2
    """

    width: ClassVar[float] = 0.2  # of Huber's loss, in half label ranges; noise is proportional

    def learnt(self, rows, slopes, ledger):
        assert ledger.budget is not None
        epsilon, delta = ledger.budget
        before = tuple(GaussianMechanism(entry.mu) for entry in ledger.entries)
        if before:
            delta /= 2
            epsilon -= gaussian_epsilon(math.hypot(*(part.mu for part in before)), delta)
            epsilon *= 1 - 1e-9
        ledger.spend_rest("linear term of an objective, and its minimiser", is_gaussian=False)
        unit = ClippedFeatures(IdentityFeatures(rows.units.shape[1]), 1.0)
        given = {"feature_map": unit, "input_bound": math.inf}
        if isinstance(slopes, SquaredSlopes):
            learner = HuberLearner(None, loss=Huber(self.width), **given)
        else:
            loss = Logistic() if slopes.num_outputs == 1 else Softmax(slopes.num_outputs)
            learner = PrivateKernelClassifier(None, loss=loss, **given)
        table = rows.units * np.float32(2.0**-16)
        budget = {"epsilon": epsilon, "delta": delta, "noise_seed": rows.source.seed}
        release = learner.fit(table, slopes.labels, public_seed=0, **budget)
        found = learner.calibration(len(table), epsilon, delta)
        # An upper bound: the objective is at least as convex as its ridge.
        std = found.noise_std / (len(table) * found.ridge)
        weights = np.asarray(release.coefficients, np.float64).reshape(-1, slopes.num_outputs)
        mechanism = Composition((*before, release.statement.mechanism))
        statement = dataclasses.replace(release.statement, mechanism=mechanism)
        return Learnt(weights, np.full(len(weights), std), statement)

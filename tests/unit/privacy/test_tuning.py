"""The price of tuning: never below what best-of-K mechanisms leak, and close to the worst."""

import itertools
import math

import numpy as np
import pytest
import scipy

import jaxdp
from jaxdp.privacy import (
    GaussianMechanism,
    NegativeBinomialRepetitions,
    PoissonRepetitions,
    PoissonSampler,
    Release,
    SecretNoise,
    Unproved,
    compose,
    tuned,
    tuned_mu,
)
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.mechanisms import AbstractMechanism
from jaxdp.privacy.tuning import BestOfRuns

EACH = [
    PoissonRepetitions(2.0),
    PoissonRepetitions(10.0),
    NegativeBinomialRepetitions(0.1),
    NegativeBinomialRepetitions(0.02, 0.0),
    NegativeBinomialRepetitions(0.01, -0.5),
    NegativeBinomialRepetitions(0.1, 3.0),
]
each_number = pytest.mark.parametrize("repetitions", EACH, ids=repr)


def _generating(repetitions, v):
    """E[v^K], from the literature's closed forms."""
    if isinstance(repetitions, PoissonRepetitions):
        return np.exp(repetitions.mean * (v - 1))
    gamma, eta = repetitions.gamma, repetitions.eta
    if eta == 0:
        return np.log(1 - (1 - gamma) * v) / math.log(gamma)
    return ((1 - (1 - gamma) * v) ** -eta - 1) / (gamma**-eta - 1)


def _delta(p, q, epsilon):
    return max(
        np.maximum(p - math.exp(epsilon) * q, 0).sum(),
        np.maximum(q - math.exp(epsilon) * p, 0).sum(),
    )


class _Discrete(AbstractMechanism):
    """Two known distributions over a few outputs, with their exact curve."""

    p: np.ndarray
    q: np.ndarray
    adjacencies = (REPLACE_ONE,)
    assumptions = ()

    def epsilon(self, delta, adjacency):
        return max(self._one_way(delta, *each) for each in ((self.p, self.q), (self.q, self.p)))

    def _one_way(self, delta, p, q):
        # Linear in e^epsilon between the ratios.
        points = np.sort(np.append(p / q, 1.0))
        values = np.maximum(p - points[:, None] * q, 0).sum(axis=1)
        return max(math.log(np.interp(delta, values[::-1], points[::-1])), 0.0)


def _cost(mechanism, repetitions, delta=1e-5):
    return BestOfRuns(mechanism, repetitions).epsilon(delta, REPLACE_ONE)


@each_number
def test_no_enumerated_mechanism_leaks_more(repetitions):
    """Five outputs, in every order of their scores."""
    orders, rng, closest = list(itertools.permutations(range(5))), np.random.default_rng(0), 0.0
    for _ in range(4):
        p, q = (scipy.special.softmax(rng.normal(size=5)) for _ in range(2))
        bound = _cost(_Discrete(p, q), repetitions, 0.01)
        for order in orders:
            below = [np.append(0, np.cumsum(each[list(order)]).clip(0, 1)) for each in (p, q)]
            best = [np.diff(_generating(repetitions, each)) for each in below]
            assert _delta(*best, bound) <= 0.01
            closest = max(closest, _delta(*best, bound / math.sqrt(2)))
    assert closest > 0.01


def _worst_epsilon(repetitions, mu, delta):
    """A leak of runs that see N(mu, 1) or N(0, 1): the best are below a, then those above s."""
    a, s = mu / 2 + np.linspace(-4, 4, 401)[:, None], mu / 2 + np.linspace(0, 9, 301)
    places = [(scipy.special.ndtr(m - a), scipy.special.ndtr(m - s)) for m in (mu, 0.0)]
    high, low = (
        _generating(repetitions, np.maximum(above, tail))
        - _generating(repetitions, np.maximum(above - tail, 0))
        for above, tail in places
    )
    is_one = (high > 1.001 * delta) & (a < s)
    return np.log((high - delta)[is_one] / low[is_one]).max()


@each_number
@pytest.mark.parametrize("mu", [0.1, 1.0])
def test_gaussian_runs_cost_what_the_worst_order_of_scores_leaks(repetitions, mu):
    worst = _worst_epsilon(repetitions, mu, 1e-5)
    assert worst <= _cost(GaussianMechanism(mu), repetitions) <= 1.02 * worst
    assert _cost(GaussianMechanism(mu / math.sqrt(2)), repetitions) < worst


@pytest.mark.parametrize("eta", [0.0, 1.0, 2.0])
def test_pure_runs_cost_two_plus_eta_times_as_much(eta):
    """Papernot and Steinke (2022), Corollary 3; for eta = 1 Liu and Talwar (2019): 3 epsilon."""
    response = _Discrete(*(scipy.special.softmax([0.0, sign * 0.1]) for sign in (1, -1)))
    found = _cost(response, NegativeBinomialRepetitions(1e-3, eta), 1e-9)
    epsilon = 0.1
    assert 0.9 * (2 + eta) * epsilon < found <= (2 + eta) * epsilon * (1 + 1e-4)
    assert found < (2 + eta) * epsilon * math.sqrt(2)


@each_number
def test_the_bound_is_below_that_by_renyi_divergences(repetitions):
    """Papernot and Steinke (2022), Theorems 2 and 6, by dp_accounting."""
    pytest.importorskip("dp_accounting")
    from dp_accounting import dp_event, rdp

    shape = getattr(repetitions, "eta", math.inf)
    if shape < 0:
        pytest.skip("dp_accounting has eta >= 0")
    accountant = rdp.RdpAccountant([1 + x for x in np.geomspace(0.01, 500, 100)])
    run = dp_event.GaussianDpEvent(2.0)
    accountant.compose(dp_event.RepeatAndSelectDpEvent(run, repetitions.mean, shape))
    renyi = accountant.get_epsilon(1e-6)
    assert renyi / 1.6 < _cost(GaussianMechanism(0.5), repetitions, 1e-6) < renyi
    assert _cost(GaussianMechanism(1.0), repetitions, 1e-6) > renyi


@each_number
def test_the_number_of_runs_has_its_distribution(repetitions):
    shares = [
        (count, float(share))
        for (count, share), _ in zip(repetitions.probabilities(), range(4000), strict=False)
    ]
    counts, shares = (np.array(each) for each in zip(*shares, strict=True))
    for v in (0.3, 0.9, 1.0):
        assert (shares * v**counts).sum() == pytest.approx(_generating(repetitions, v), rel=1e-12)
    assert (shares * counts).sum() == pytest.approx(repetitions.mean, rel=1e-9)
    drawn = np.array([repetitions.draw(SecretNoise(seed)) for seed in range(500)])
    error = math.sqrt((shares * (counts - repetitions.mean) ** 2).sum() / len(drawn))
    assert abs(drawn.mean() - repetitions.mean) < 4 * error
    assert abs(drawn.mean() - repetitions.mean * math.sqrt(2)) > 4 * error


def test_a_budget_is_kept_and_used_up():
    repetitions = EACH[2]
    mu = tuned_mu(2.0, 1e-5, repetitions=repetitions)
    assert _cost(GaussianMechanism(mu), repetitions) <= 2.0
    assert _cost(GaussianMechanism(mu * 1.0001), repetitions) > 2.0


def test_poisson_batches_are_tuned_by_their_own_account():
    pytest.importorskip("dp_accounting")
    mechanism = PoissonSampler(1000, 0.01).mechanism(2.0, 100)
    run = Release("sums", "zero-out-one", mechanism, num_records=1000)
    best = tuned(run, repetitions=EACH[2])
    alone, found = (jaxdp.account(each, delta=1e-6).epsilon for each in (run, best))
    assert 1.2 * alone < found < 2.5 * alone
    both = jaxdp.account(compose(best, run), delta=1e-6).epsilon
    assert found + alone < both < 1.2 * (found + alone)
    assert best.num_records == 1000


def test_runs_without_a_proof_have_no_finite_cost():
    for mechanism in (Unproved("nobody knows"), GaussianMechanism(math.inf)):
        best = tuned(Release("a run", REPLACE_ONE, mechanism), repetitions=EACH[2])
        cost = jaxdp.account(best, delta=1e-5)
        assert cost.epsilon == math.inf
    assert _cost(GaussianMechanism(5.0), PoissonRepetitions(1e5)) == math.inf
    # Many draws are told from few by the number alone, which is not released.
    assert _cost(GaussianMechanism(0.0), EACH[2]) < 0.01


REFUSED = [
    (lambda: PoissonRepetitions(0.0), "rate > 0, got 0.0"),
    (lambda: PoissonRepetitions(math.nan), "rate > 0"),
    (lambda: NegativeBinomialRepetitions(1.0), "0 < gamma < 1, got 1.0"),
    (lambda: NegativeBinomialRepetitions(0.1, -1.0), "-1 < eta"),
    (lambda: NegativeBinomialRepetitions(1e-8), "at most 1e6 runs on average"),
    (lambda: tuned_mu(1e-5, 1e-5, repetitions=EACH[1]), "expected epsilon of at least"),
    (lambda: tuned_mu(0.0, 1e-5, repetitions=EACH[1]), "0 < epsilon"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_wrong_numbers_are_refused_in_words(call, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        call()


def test_a_number_of_runs_is_no_distribution():
    with pytest.raises(TypeError, match="PoissonRepetitions"):
        tuned(jaxdp.DPGD(0.02, 1.0, 5, 2.0), repetitions=8)

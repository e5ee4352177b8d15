"""The price of tuning: never below what best-of-K mechanisms leak, and close to the worst."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr, softmax

import jaxdp
from jaxdp import privacy
from jaxdp.privacy import GaussianMechanism, NegativeBinomialRepetitions, PoissonRepetitions
from jaxdp.privacy.adjacency import REPLACE_ONE
from jaxdp.privacy.mechanisms import AbstractMechanism
from jaxdp.privacy.tuning import BestOfRuns

GEOMETRIC = NegativeBinomialRepetitions(0.1)
EACH = [
    *(GEOMETRIC, PoissonRepetitions(2.0), PoissonRepetitions(10.0)),
    *(NegativeBinomialRepetitions(*each) for each in ((0.02, 0.0), (0.01, -0.5), (0.1, 3.0))),
]
each_number = pytest.mark.parametrize("repetitions", EACH, ids=repr)


def _generating(repetitions, v):
    """E[v^K], in closed form."""
    if isinstance(repetitions, PoissonRepetitions):
        return np.exp(repetitions.rate * (v - 1))
    gamma, eta = repetitions.gamma, repetitions.eta
    if eta == 0:
        return np.log(1 - (1 - gamma) * v) / math.log(gamma)
    return ((1 - (1 - gamma) * v) ** -eta - 1) / (gamma**-eta - 1)


def _delta(p, q, epsilon):
    return max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p)))


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
    rng, closest = np.random.default_rng(0), 0.0
    for _ in range(4):
        p, q = (softmax(rng.normal(size=5)) for _ in range(2))
        bound = _cost(_Discrete(p, q), repetitions, 0.01)
        for order in itertools.permutations(range(5)):
            below = [np.append(0, np.cumsum(each[list(order)]).clip(0, 1)) for each in (p, q)]
            best = [np.diff(_generating(repetitions, each)) for each in below]
            assert _delta(*best, bound) <= 0.01
            closest = max(closest, _delta(*best, bound / math.sqrt(2)))
    assert closest > 0.01


def _worst_epsilon(repetitions, mu, delta):
    """A leak of runs that see N(mu, 1) or N(0, 1): the best are below a, then those above s."""
    a, s = mu / 2 + np.linspace(-4, 4, 401)[:, None], mu / 2 + np.linspace(0, 9, 301)
    high, low = (
        _generating(repetitions, np.maximum(ndtr(m - a), ndtr(m - s)))
        - _generating(repetitions, np.maximum(ndtr(m - a) - ndtr(m - s), 0))
        for m in (mu, 0.0)
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
    response = _Discrete(*(softmax([0.0, sign * 0.1]) for sign in (1, -1)))
    found = _cost(response, NegativeBinomialRepetitions(1e-3, eta), 1e-9)
    assert 0.9 * (2 + eta) * 0.1 < found <= (2 + eta) * 0.1 * (1 + 1e-4)


@pytest.mark.parametrize("repetitions", [*EACH[:4], EACH[5]], ids=repr)
def test_the_bound_is_below_that_by_renyi_divergences(repetitions):
    """Papernot and Steinke (2022), Theorems 2 and 6, by dp_accounting."""
    pytest.importorskip("dp_accounting")
    from dp_accounting import dp_event, rdp

    accountant = rdp.RdpAccountant([1 + x for x in np.geomspace(0.01, 500, 100)])
    run, shape = dp_event.GaussianDpEvent(2.0), getattr(repetitions, "eta", math.inf)
    accountant.compose(dp_event.RepeatAndSelectDpEvent(run, repetitions.mean, shape))
    renyi = accountant.get_epsilon(1e-6)
    assert renyi / 1.6 < _cost(GaussianMechanism(0.5), repetitions, 1e-6) < renyi
    assert _cost(GaussianMechanism(1.0), repetitions, 1e-6) > renyi


@each_number
def test_the_number_of_runs_has_its_distribution(repetitions):
    first = itertools.islice(repetitions.probabilities(), 4000)
    counts, shares = np.array([(count, float(share)) for count, share in first]).T
    for v in (0.3, 0.9, 1.0):
        assert (shares * v**counts).sum() == pytest.approx(_generating(repetitions, v), rel=1e-12)
    drawn = np.array([repetitions.draw(privacy.SecretNoise(seed)) for seed in range(500)])
    error = math.sqrt((shares * (counts - repetitions.mean) ** 2).sum() / len(drawn))
    assert abs(drawn.mean() - repetitions.mean) < 4 * error
    assert abs(drawn.mean() - repetitions.mean * math.sqrt(2)) > 4 * error


def test_a_budget_is_kept_and_used_up():
    mu = privacy.tuned_mu(2.0, 1e-5, repetitions=GEOMETRIC)
    assert _cost(GaussianMechanism(mu), GEOMETRIC) <= 2.0
    assert _cost(GaussianMechanism(mu * 1.0001), GEOMETRIC) > 2.0


def test_poisson_batches_are_tuned_by_their_own_account():
    pytest.importorskip("dp_accounting")
    run = privacy.Release(
        "sums", "zero-out-one", privacy.PoissonSampler(1000, 0.01).mechanism(2.0, 100)
    )
    best = privacy.tuned(run, repetitions=GEOMETRIC)
    alone, found = (jaxdp.account(each, delta=1e-6).epsilon for each in (run, best))
    assert 1.2 * alone < found < 2.5 * alone
    both = jaxdp.account(privacy.compose(best, run), delta=1e-6).epsilon
    assert found + alone < both < 1.2 * (found + alone)


def test_runs_without_a_proof_have_no_finite_cost():
    for mechanism in (privacy.Unproved("nobody knows"), GaussianMechanism(math.inf)):
        best = privacy.tuned(
            privacy.Release("a run", REPLACE_ONE, mechanism), repetitions=GEOMETRIC
        )
        assert jaxdp.account(best, delta=1e-5).epsilon == math.inf
    assert _cost(GaussianMechanism(5.0), PoissonRepetitions(1e5)) == math.inf
    assert _cost(GaussianMechanism(0.0), GEOMETRIC) < 0.01


REFUSED = [
    (lambda: PoissonRepetitions(0.0), "rate > 0, got 0.0"),
    (lambda: NegativeBinomialRepetitions(1.0), "0 < gamma < 1, got 1.0"),
    (lambda: NegativeBinomialRepetitions(0.1, -1.0), "-1 < eta"),
    (lambda: NegativeBinomialRepetitions(1e-8), "at most 1e6 runs on average"),
    (lambda: privacy.tuned_mu(1e-5, 1e-5, repetitions=EACH[2]), "expected epsilon of at least"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_wrong_numbers_are_refused_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()

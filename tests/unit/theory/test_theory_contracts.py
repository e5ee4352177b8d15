"""What every theory keeps to: its clock, what it refuses, batches, derivatives and digits."""

import functools

import canonical
import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from dp_gd_numpy import relu, rows, scaled
from helpers import programs_compiled, quick_and_slow

import jaxdp
from jaxdp.privacy import PoissonSampler, ShuffledEpochs

SLOW = pytest.mark.slow
FORWARD = diffrax.ForwardMode()
BOUNDS = [
    jaxdp.LowerBound(),
    jaxdp.theory.TightLowerBound(),
    jaxdp.theory.TightUpperBound(),
    jaxdp.UpperBound(),
]
ON_ROWS = [
    jaxdp.GaussianClosure(),
    jaxdp.theory.ClippedDiffusion(),
    jaxdp.OrnsteinUhlenbeck(),
    jaxdp.GradientFlow(),
    jaxdp.UnclippedRecursion(),
]
PASS = jaxdp.OnePassDPSGD(jaxdp.Polynomial(3.0, 0.5), 1.0, 1.0, 95)
STREAM = jaxdp.LinearRegression.power_law(10, condition_number=2.0, label_noise=0.3)
DESCENT = jaxdp.DPGD(0.01, 5.0, 7, 0.05)


def name_of(theory):
    return type(theory).__name__


@functools.cache
def _rows(seed=0, dtype=np.float32, **sizes):
    data = rows(seed, **{"num_train": 30, "num_test": 20, "dim": 6, "num_features": 12} | sizes)
    return data, jaxdp.RandomFeatures.from_arrays(*(part.astype(dtype) for part in data[:5]))


@pytest.mark.parametrize(
    "theory",
    [
        *(jaxdp.CoupledODE(), jaxdp.DiscreteRecursion()),
        *(pytest.param(theory, marks=SLOW) for theory in (jaxdp.Fluctuations(), *BOUNDS)),
    ],
    ids=name_of,
)
def test_a_theory_of_one_pass_has_its_clock_start_and_observables(theory):
    predicted = jaxdp.predict(STREAM, PASS, theory=theory, records=20).check()
    assert predicted.risk.shape == predicted.time.shape == (21,)
    np.testing.assert_allclose(predicted.time, [j * 95 // 20 / 95 for j in range(21)], rtol=1e-6)
    np.testing.assert_allclose(predicted.risk[0], 0.5, rtol=1e-5)
    # A bound follows the risk alone.
    own = set() if theory in BOUNDS else {"distance"}
    assert set(predicted.observables) == {"clipped_fraction", "capped_fraction"} | own
    assert all(values.shape == (21,) for values in predicted.observables.values())
    has_std = isinstance(theory, jaxdp.Fluctuations)
    assert (predicted.std is not None) == (predicted.final_std is not None) == has_std
    assert theory.why_not(STREAM, PASS) is None


@pytest.mark.parametrize(
    "theory",
    [
        pytest.param(theory, marks=SLOW)
        if isinstance(theory, jaxdp.theory.ClippedDiffusion)
        else theory
        for theory in ON_ROWS
    ],
    ids=name_of,
)
def test_theories_on_rows_share_one_clock_and_start(theory):
    _, problem = _rows()
    predicted = jaxdp.predict(problem, DESCENT, theory=theory, records=3).check()
    np.testing.assert_allclose(predicted.time, [0, 0.02, 0.04, 0.07], rtol=1e-6)
    assert predicted.risk[0] == 1  # labels +-1
    assert predicted.final_risk == predicted.risk[-1]
    parts = predicted.observables
    np.testing.assert_allclose(parts["bias"] + parts["variance"], predicted.risk, rtol=1e-6)
    assert all(value.shape == (4,) for value in parts.values())


SCALES = STREAM.replace(input_scales=jaxdp.InputScales([0.5, 1.5], [0.5, 0.5]))
HUBER = STREAM.replace(loss=jaxdp.losses.Huber(1.0))
LABELS, EVEN, TABLE = canonical.labels(), canonical.stream(), canonical.table()
FEATURES = _rows()[1]
BATCHES = jaxdp.OnePassDPSGD(1.0, 1.0, 1.0, 10, batch_size=2)
CORRELATED = jaxdp.CorrelatedDPSGD([1.0, 0.5], 0.4, 0.5, batch_size=2, strategy=np.eye(2))


def _optimiser(optimiser, sampler):
    steps = {"clip_norm": 1.0, "noise_multiplier": 1.0, "num_steps": 3, "sampler": sampler}
    return jaxdp.PrivateOptimiser(optimiser, learning_rate=0.3, **steps)


POISSON = PoissonSampler(30, 0.5)
REFUSED = [
    (jaxdp.theory.TightLowerBound(), STREAM, DESCENT, "OnePassDPSGD, got DPGD"),
    (jaxdp.CoupledODE(), STREAM, CORRELATED, "describes OnePassDPSGD"),
    (jaxdp.CoupledODE(quadratics={"a": np.ones(20)}), LABELS, PASS, "are of LinearRegression"),
    (jaxdp.Fluctuations(), SCALES, PASS, r"got input_scales; CoupledODE\(\)"),
    (jaxdp.Fluctuations(), HUBER, PASS, r"got the loss Huber; use CoupledODE\(\)"),
    (jaxdp.FiniteDimension(), STREAM, PASS, "isotropic inputs.*use Fluctuations"),
    (jaxdp.FiniteDimension(), EVEN, BATCHES, "batch_size = 2; use DiscreteRecursion"),
    (jaxdp.theory.DiscreteVolterra(), STREAM, PASS, "describes CorrelatedDPSGD, got OnePassDPSGD"),
    (None, TABLE, CORRELATED, r"predict on its \.surrogate"),
    *((theory, FEATURES, BATCHES, "describes DPGD.*, got OnePassDPSGD") for theory in ON_ROWS),
    (None, FEATURES, BATCHES, "^ModewiseClosure, GaussianClosure: it describes DPGD and P[^|]*$"),
    *((theory, EVEN, DESCENT, "RandomFeatures.*; on LinearR.* use OnePass") for theory in ON_ROWS),
    (None, FEATURES, _optimiser(optax.adam, ShuffledEpochs(30, 10)), "use FixedSizeBatches"),
]


@pytest.mark.parametrize(("theory", "problem", "algorithm", "reason"), REFUSED)
def test_what_is_not_covered_is_said_before_any_work(theory, problem, algorithm, reason):
    with pytest.raises(jaxdp.NotCoveredError, match=reason) as caught:
        jaxdp.predict(problem, algorithm, theory=theory)
    if theory is not None:
        assert str(caught.value) == f"{name_of(theory)}: {theory.why_not(problem, algorithm)}"


# For each theory numbers, all of which may be traced, and a prediction's number of them.


def _one_pass(theory, num_steps, *, dim=30, batch_size=1, label=None, records=100):
    def final(peak, power, clip_scale, rho, noise, adjoint=None):
        problem = jaxdp.LinearRegression.isotropic(dim, label_noise=noise)
        if label == "signal":
            problem = jaxdp.LogisticRegression(dim, signal=noise)
        rate = jaxdp.Polynomial(peak, power)
        algorithm = jaxdp.OnePassDPSGD(rate, clip_scale, rho, num_steps, batch_size=batch_size)
        asked = theory() if adjoint is None else theory(adjoint)
        return jaxdp.predict(problem, algorithm, theory=asked, records=records).final_risk

    return final


def _of_peak(theory):
    final = _one_pass(theory, 60, dim=100, batch_size=2)
    return lambda peak: final(peak, 0.5, 1.0, 1.0, 0.3)


def _capped(schedule):
    """Beyond the cap, as a function of what shapes the schedule."""

    def final(shape):
        problem = jaxdp.LinearRegression.isotropic(40, label_noise=0.3)
        algorithm = jaxdp.OnePassDPSGD(schedule(60.0, shape), 0.3, 1.0, 400)
        return jaxdp.predict(problem, algorithm, theory=jaxdp.CoupledODE(), records=1).final_risk

    return final


def _descent(theory, *, of_small=True, num_features=90):
    """Of learning rate and clip norm, or of the rate alone."""
    seed = 5 if of_small else 7
    data, problem = _rows(seed, np.float64, num_features=num_features)
    settings = scaled(data, epsilon=4, clip=0.5, tau=4.3, num_steps=12)
    rate, clip = settings["learning_rate"], settings["clip_norm"]

    def final(rate, clip, adjoint=None):
        algorithm = jaxdp.DPGD(rate, clip, 12, settings["noise_scale"])
        asked = theory() if adjoint is None else theory(adjoint=adjoint)
        return jaxdp.predict(problem, algorithm, theory=asked, records=3).final_risk

    def of_rate(rate):
        algorithm = jaxdp.DPGD(rate, 40.0, 100, 0.7)
        return jaxdp.predict(problem, algorithm, theory=theory(), records=2).final_risk

    return (final, (rate, clip)) if of_small else (of_rate, (0.003,))


def _quarter(described):
    final, (rate, clip) = described
    return final, (rate / 4, clip)


def _of_scales(values):
    """Beyond the caps of the inputs' scales, as a function of these."""
    scales = jaxdp.InputScales(values, [0.4, 0.4, 0.2])
    problem = jaxdp.LinearRegression.isotropic(200, label_noise=0.3, input_scales=scales)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(120.0, 0.5), 0.05, 3.0, 2000)
    return jaxdp.predict(problem, algorithm, records=1).final_risk


def _everyday(read, spread_rank=None):
    """Of the rate of steps on Poisson batches."""
    theory = jaxdp.GaussianClosure(0, spread_rank=spread_rank)
    _, problem = _rows(0, jnp.zeros(()).dtype.type)

    def final(rate):
        algorithm = _optimiser(optax.sgd, POISSON).replace(learning_rate=rate)
        return read(jaxdp.predict(problem, algorithm, theory=theory, records=2))

    return final


POINT, SIGNAL = (3.0, 0.5, 1.0, 1.0, 0.3), (12.0, 0.5, 0.3, 1.0, 2.0)
PLAIN_CLOSURE = functools.partial(jaxdp.GaussianClosure, 8, spread_rank=None)
CLIPPED = functools.partial(jaxdp.theory.ClippedDiffusion, 8)
THREE = np.array([0.2, 1.0, 3.0]) / 1.08
# Along which the weighted mean of one stays.
ALONG = np.array([1.0, -1.0, 0.0])
# What is differentiated and where; which numbers; relative step and tolerance of the differences;
# the argument of forward mode, None for none; how well both modes agree.
DERIVATIVES = {
    "ODE": (lambda: (_one_pass(jaxdp.CoupledODE, 300), POINT), 1e-4, 1e-4, (FORWARD,), 1e-4),
    "ODE, hyperbolic cap": (lambda: (_capped(jaxdp.Hyperbolic), (0.2,)), 5e-4, 1e-4, None, 0),
    "ODE, polynomial cap": (lambda: (_capped(jaxdp.Polynomial), (1.0,)), 1e-4, 1e-4, None, 0),
    "signal": (
        lambda: (_one_pass(jaxdp.CoupledODE, 1000, dim=50, label="signal", records=1), SIGNAL),
        *(1e-4, 1e-4, (FORWARD,), 1e-4),
    ),
    "recursion": (lambda: (_of_peak(jaxdp.DiscreteRecursion), (1.5,)), 1e-4, 1e-5, (), 1e-5),
    "closure": (lambda: _descent(PLAIN_CLOSURE), 1e-4, 1e-5, (), 1e-10),
    "diffusion": (lambda: _quarter(_descent(CLIPPED)), 1e-3, 1e-4, (FORWARD,), 1e-6),
    "OU": (
        lambda: _descent(jaxdp.OrnsteinUhlenbeck, of_small=False, num_features=60),
        *(3e-5, 1e-6, None, 0),
    ),
    "unclipped recursion": (
        lambda: _descent(jaxdp.UnclippedRecursion, of_small=False, num_features=60),
        *(3e-5, 1e-6, None, 0),
    ),
    "scales": (
        lambda: (lambda amount: _of_scales(THREE + (amount - 1) * ALONG), (1.0,)),
        *(1e-4, 1e-4, None, 0),
    ),
    "everyday": (lambda: (_everyday(lambda p: p.final_risk), (0.3,)), 1e-3, 1e-5, None, 0),
    "everyday, std": (lambda: (_everyday(lambda p: p.std[-1], 0), (0.3,)), 1e-3, 1e-5, (), 1e-10),
}


@pytest.mark.parametrize("name", quick_and_slow(DERIVATIVES, "OU", "unclipped recursion"))
def test_derivatives_are_finite_differences(name):
    make, step, tolerance, mode, agreement = DERIVATIVES[name]
    with jax.enable_x64():
        final, point = make()
        point = tuple(jnp.asarray(value, float) for value in point)
        numbers = tuple(range(len(point)))
        # A derivative comes with its value: no program has the value alone.
        both = jax.jit(jax.value_and_grad(final, numbers))
        _, found = both(*point)
        for place, slope in enumerate(found):
            size = step * float(point[place])
            below, above = (
                both(*(v + (sign * size if i == place else 0) for i, v in enumerate(point)))[0]
                for sign in (-1, 1)
            )
            np.testing.assert_allclose(slope, (above - below) / (2 * size), rtol=tolerance)
        if mode is not None:
            forward = jax.jit(lambda *point: jax.jacfwd(final, numbers)(*point, *mode))(*point)
            np.testing.assert_allclose(forward, found, rtol=agreement)


def _one_pass_of(schedule, clip_scale, num_steps, dim=1000, batch_size=1):
    problem = jaxdp.LinearRegression.isotropic(dim, label_noise=0.3)
    return problem, jaxdp.OnePassDPSGD(schedule, clip_scale, 1.0, num_steps, batch_size=batch_size)


def _labels_of(peak, power, clip_scale):
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(peak, power), clip_scale, 1.0, 1000)
    return jaxdp.LogisticRegression(50, signal=2.0), algorithm


def _rows_of(num_features):
    # Forty features are of the ReLU, whose kernel has a spike.
    activations = (relu, jax.nn.relu) if num_features == 40 else (np.tanh, jnp.tanh)
    sizes = {"num_train": 30, "num_test": 20, "dim": 6, "num_features": num_features}
    data = rows(7, **sizes, activation=activations[0])
    problem = jaxdp.RandomFeatures.from_arrays(*data[:5], activation=activations[1])
    return problem, jaxdp.DPGD(0.003, 40.0, 100, 0.7)


def _clipped_rows():
    data = rows(5, num_train=30, num_test=20, dim=6, num_features=90)
    settings = scaled(data, epsilon=4, clip=0.5, tau=4.3, num_steps=12)
    return jaxdp.RandomFeatures.from_arrays(*data[:5]), jaxdp.DPGD(**settings)


ROOT, ODE = jaxdp.Polynomial(3.0, 0.5), jaxdp.CoupledODE()
EXACT = jaxdp.OrnsteinUhlenbeck(), jaxdp.UnclippedRecursion()
# Theory, records, and the problem and algorithm, made in either precision.
DIGITS = [
    (ODE, 10_000, lambda: _one_pass_of(jaxdp.Hyperbolic(1e5, 2e-5), 1.0, 10**8)),
    (ODE, 10_000, lambda: _one_pass_of(ROOT, 1.0, 10**4)),
    # R(1) = 5e-6 beside noise still to come of 3e-3 at the start.
    (ODE, 10_000, lambda: _one_pass_of(jaxdp.Hyperbolic(2000.0, 1.1e-3), 0.5, 10**6, dim=100)),
    (ODE, 100, lambda: _labels_of(30.0, 0.5, 0.1)),
    (ODE, 100, lambda: _labels_of(300.0, 0.5, 0.05)),
    (jaxdp.DiscreteRecursion(), 100, lambda: _one_pass_of(ROOT, 1.0, 10**5, 100, batch_size=2)),
    (jaxdp.theory.ClippedDiffusion(8), 3, _clipped_rows),
    (jaxdp.GradientFlow(), 3, lambda: _rows_of(60)),
    *((one, 3, functools.partial(_rows_of, width)) for one in EXACT for width in (12, 40, 60)),
]


@SLOW
@pytest.mark.parametrize(("theory", "records", "make"), DIGITS)
def test_float32_keeps_its_digits(theory, records, make):
    tolerance = 1e-5 if theory in EXACT else 1e-4
    narrow = jaxdp.predict(*make(), theory=theory, records=records).check()
    with jax.enable_x64():
        wide = jaxdp.predict(*make(), theory=theory, records=records)
    assert (narrow.risk.dtype, wide.risk.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(narrow.risk, wide.risk, rtol=tolerance)
    np.testing.assert_allclose(narrow.final_risk, wide.final_risk, rtol=tolerance)
    allowed = {"rtol": 0, "atol": 1e-5} if theory is ODE else {"rtol": 1e-4}
    # The ReLU's interpolator rests on a mode below the rounding of its largest one in float32.
    observed = set() if theory in EXACT else {"clipped_fraction", "interpolator_distance"}
    for observable in observed & set(wide.observables):
        values = (one.observables[observable] for one in (narrow, wide))
        np.testing.assert_allclose(*values, **allowed)


def _batched(theory):
    def final(rate, clip, steps):
        algorithm = jaxdp.DPGD(rate, clip, steps, 0.05)
        return jaxdp.predict(FEATURES, algorithm, theory=theory, records=3).final_risk

    return final, ([0.01, 0.02], [5.0, 3.0], [7, 2])


def _batched_pass(theory, point, **described):
    def final(*numbers):
        return _one_pass(theory, numbers[-1], **described)(*numbers[:-1])

    return final, (*([value, 1.1 * value] for value in point), [300, 600])


TOGETHER = {
    "ODE": (lambda: _batched_pass(jaxdp.CoupledODE, POINT), 2e-5),
    "signal": (lambda: _batched_pass(jaxdp.CoupledODE, SIGNAL, dim=50, label="signal"), 2e-5),
    "recursion": (lambda: _batched_pass(jaxdp.DiscreteRecursion, POINT, batch_size=5), 1e-5),
    **{name_of(theory): (functools.partial(_batched, theory), 1e-5) for theory in ON_ROWS},
    "scales": (lambda: (_of_scales, ([THREE, np.ones(3)],)), 1e-4),
    "everyday": (lambda: (_everyday(lambda p: p.final_risk), ([0.2, 0.3],)), 1e-5),
}


@pytest.mark.parametrize("name", quick_and_slow(TOGETHER, "recursion"))
def test_a_batch_of_numbers_and_lengths_gives_what_each_gives(name):
    make, tolerance = TOGETHER[name]
    final, columns = make()
    together = jax.jit(jax.vmap(final))(*map(jnp.asarray, columns))
    alone = [final(*cell) for cell in zip(*columns, strict=True)]
    np.testing.assert_allclose(together, alone, rtol=tolerance)


@SLOW
def test_a_traced_schedule_that_increases_is_void():
    def status(last):
        schedule = jaxdp.PiecewiseLinear([0.0, 1.0], jnp.stack([jnp.ones(()), last]))
        predicted = jaxdp.predict(EVEN, PASS.replace(learning_rate=schedule))
        return predicted.status, predicted.final_risk

    statuses, risks = jax.vmap(status)(jnp.asarray([0.5, 1.5]))
    assert statuses.tolist() == [jaxdp.Status.OK, jaxdp.Status.INVALID]
    assert np.isfinite(risks).tolist() == [True, False]


@pytest.mark.parametrize(
    ("theory", "label", "lengths"),
    [
        (jaxdp.CoupledODE, None, (300, 900)),
        pytest.param(jaxdp.CoupledODE, "signal", (1600, 900), marks=SLOW),
        (jaxdp.FiniteDimension, None, (100, 100)),
    ],
)
def test_new_numbers_and_lengths_compile_nothing(theory, label, lengths):
    def final(num_steps, *numbers):
        return _one_pass(theory, num_steps, dim=10, label=label, records=10)(*numbers)

    final(lengths[0], *POINT)
    assert programs_compiled(final, lengths[1], 2.0, 0.2, 0.7, 2.0, 0.5) == 0

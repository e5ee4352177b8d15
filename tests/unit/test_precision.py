"""Products of matrices keep their digits where a tolerance is promised, read off the programs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from helpers import quick_and_slow
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.lax import Precision

import jaxdp
from experiments.networks import classifiers, gradient_descent, last_layer, residual
from jaxdp import attacks, kernels
from jaxdp.attacks.objective import relative_loss
from jaxdp.clipping.per_sample import clipped_gradient_sum_in_parts
from jaxdp.core.numerics.precision import full_products
from jaxdp.problems import ReducedFeatures
from jaxdp.problems.rows.kernel_factors import lanczos_eigenvalue

PRODUCTS = ("dot_general", "conv_general_dilated")
ROWS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
LABELS = np.random.default_rng(1).normal(size=5).astype(np.float32)


def _equations(program):
    """All equations of a program, those of the programs inside it too."""
    for equation in program.eqns:
        yield equation
        for inner in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda leaf: isinstance(leaf, Jaxpr)
        ):
            if isinstance(inner, ClosedJaxpr):
                yield from _equations(inner.jaxpr)
            elif isinstance(inner, Jaxpr):
                yield from _equations(inner)


def _precisions(function, *arguments):
    """What each product of the function's program asks for."""
    arrays, static = eqx.partition(arguments, eqx.is_array)

    def traced(arrays):
        out = function(*eqx.combine(arrays, static))
        return eqx.filter(out, eqx.is_array)

    program = jax.make_jaxpr(traced)(arrays)
    return [
        equation.params["precision"]
        for equation in _equations(program.jaxpr)
        if equation.primitive.name in PRODUCTS
    ]


def _assert_full(function, *arguments, least=1):
    found = _precisions(function, *arguments)
    assert len(found) >= least
    full = (Precision.HIGHEST, Precision.HIGHEST)
    rounded = [number for number, precision in enumerate(found) if precision != full]
    assert not rounded, f"products {rounded} of {len(found)} are rounded: {found}"


def _default(first, second):
    return first @ second


def _with_a_derivative(function):
    own = jax.custom_jvp(function)
    own.defjvp(lambda primals, tangents: jax.jvp(function, primals, tangents))
    return own


@pytest.mark.parametrize(
    "around",
    [
        jax.jit,
        jax.vmap,
        jax.checkpoint,
        lambda f: lambda a, b: jax.lax.scan(lambda c, x: (f(c, x), None), a, b[None])[0],
        lambda f: lambda a, b: jax.lax.cond(a[0, 0, 0] > 0, f, lambda a, b: a, a, b),
        lambda f: lambda a, b: jax.lax.while_loop(lambda c: c[0, 0, 0] > 0, lambda c: f(c, b), a),
        lambda f: lambda a, b: jax.grad(lambda a: f(a, b).sum())(a),
        _with_a_derivative,
    ],
    ids=["jit", "vmap", "checkpoint", "scan", "cond", "while", "grad", "custom_jvp"],
)
def test_a_rounded_product_is_found_wherever_it_stands(around):
    arguments = jnp.ones((2, 2, 2)), jnp.ones((2, 2, 2))
    with pytest.raises(AssertionError, match="are rounded"):
        _assert_full(around(_default), *arguments)

    def full(first, second):
        with full_products():
            return _default(first, second)

    _assert_full(around(full), *arguments)


ONE_PASS = (
    jaxdp.LinearRegression([1.5, 0.5, 1.5, 0.5], np.ones(4), 0.1),
    jaxdp.OnePassDPSGD(jaxdp.Polynomial(2.0, 0.5), 1.0, 1.0, 4),
)
LOGISTIC = (jaxdp.LogisticRegression(4, signal=2.0), ONE_PASS[1])


CORRELATED = (
    ONE_PASS[0],
    jaxdp.CorrelatedDPSGD(
        [1.0, 0.5], 1.0, 1.0, batch_size=3, strategy=jaxdp.privacy.square_root_strategy(2, 0.1)
    ),
)


def _full_batch():
    factors = np.random.default_rng(2).normal(size=(4, 3)).astype(np.float32)
    problem = ReducedFeatures(factors, factors[:2], factors[2:], np.ones(4), np.ones(2))
    return problem, jaxdp.DPGD(0.05, 1.0, 4, 0.1)


THEORIES = {
    "CoupledODE": (ONE_PASS, jaxdp.CoupledODE(), 1),
    "CoupledODE of labels": (LOGISTIC, jaxdp.CoupledODE(), 0),
    "DiscreteRecursion": (ONE_PASS, jaxdp.DiscreteRecursion(), 0),
    "DiscreteVolterra": (CORRELATED, jaxdp.theory.DiscreteVolterra(), 0),
    "Fluctuations": (ONE_PASS, jaxdp.Fluctuations(), 1),
    "FiniteDimension": (
        (jaxdp.LinearRegression(np.ones(4), np.ones(4), 0.1), ONE_PASS[1]),
        jaxdp.FiniteDimension(),
        0,
    ),
    "GaussianClosure": (_full_batch(), jaxdp.GaussianClosure(), 1),
    "ClippedDiffusion": (_full_batch(), jaxdp.theory.ClippedDiffusion(), 1),
    "OrnsteinUhlenbeck": (_full_batch(), jaxdp.OrnsteinUhlenbeck(), 1),
    "GradientFlow": (_full_batch(), jaxdp.GradientFlow(), 1),
    "unclipped recursion": (_full_batch(), jaxdp.UnclippedRecursion(), 1),
}


@pytest.mark.parametrize("name", THEORIES)
def test_predictions_keep_the_digits_of_their_sums(name):
    pair, theory, least = THEORIES[name]
    _assert_full(lambda *pair: jaxdp.predict(*pair, theory=theory, records=2), *pair, least=least)


SIMULATORS = {
    "Reduced": (ONE_PASS, jaxdp.Reduced(), 0),
    "Reduced labels": (LOGISTIC, jaxdp.Reduced(), 0),
    "Iterates": (ONE_PASS, jaxdp.Iterates(), 1),
    "Iterates with correlated noise": (CORRELATED, jaxdp.Iterates(), 2),
    "Iterates of labels": (LOGISTIC, jaxdp.Iterates(), 1),
    "HomogenizedSDE": (ONE_PASS, jaxdp.HomogenizedSDE(num_steps=4), 0),
    "FunctionSpace": (_full_batch(), jaxdp.FunctionSpace(), 1),
    "Iterates on features": (_full_batch(), jaxdp.Iterates(), 1),
    "ClippedSDE": (_full_batch(), jaxdp.simulation.ClippedSDE(num_steps=4), 1),
    "OrnsteinUhlenbeckSDE": (_full_batch(), jaxdp.simulation.OrnsteinUhlenbeckSDE(num_steps=4), 1),
}


# Tracing a solver of diffrax takes a second or two.
SLOW = {"HomogenizedSDE", "ClippedSDE", "OrnsteinUhlenbeckSDE"}


@pytest.mark.parametrize("name", quick_and_slow(SIMULATORS, *SIMULATORS.keys() - SLOW))
def test_simulated_runs_keep_the_digits_of_their_sums(name):
    pair, simulator, least = SIMULATORS[name]

    def run(*pair):
        return jaxdp.simulate(*pair, simulator=simulator, key=jr.key(0), records=2)

    _assert_full(run, *pair, least=least)


def _table():
    rows = np.random.default_rng(3).normal(size=(14, 3))
    return jaxdp.TabularRegression(rows, rows.sum(axis=1) + 0.1 * rows[:, 0] ** 2)


def _features():
    return jaxdp.RandomFeatures.sample(4, 3, 2, 5, key=jr.key(0))


def _called(made, rows):
    """A kernel or a feature map, called."""
    return (lambda made, *rows: made(*rows)), made, *map(jnp.asarray, rows)


GAUSSIAN, TORUS = kernels.Gaussian(0.75), kernels.TorusKernel
# A function with its arguments.
PARTS = {
    "table": lambda: (lambda table: table.prepare(jr.key(0)), _table()),
    "risk of a table": lambda: (lambda t: t.risk(t.prepare(jr.key(0)), jnp.ones(3)), _table()),
    "features": lambda: (lambda problem: problem.train_features(), _features()),
    "joint kernel": lambda: (lambda problem: problem.joint_kernel(), _features()),
    "largest eigenvalue": lambda: (lanczos_eigenvalue, jnp.ones((4, 3))),
    "inner product": lambda: _called(kernels.InnerProduct(), (ROWS, ROWS)),
    "waves": lambda: _called(GAUSSIAN.features(4, 3, key=jr.key(0)), (ROWS,)),
    "paths": lambda: _called(
        kernels.SamplePaths.sample(GAUSSIAN, 4, 16, 3, key=jr.key(0)), (ROWS,)
    ),
    "torus": lambda: (lambda k, x: k.diagonal(x), TORUS.power_law(7, capacity=0.5), ROWS[:, :1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_problems_and_kernels_keep_their_digits(name):
    _assert_full(*PARTS[name]())


NETWORKS = {
    "two layers": lambda: last_layer.TwoLayerNetwork(3, 4, 2, key=jr.key(0)),
    "residual": lambda: residual.ResidualNetwork(2, 2, 2, num_blocks=1, key=jr.key(0)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_the_experiments_keep_their_digits(name):
    network = NETWORKS[name]()
    inputs = jnp.ones(network.in_size)
    _assert_full(lambda network, input: network(input), network, inputs, least=2)
    _assert_full(
        lambda network, input: eqx.filter_grad(lambda n: jnp.sum(n(input)))(network),
        network,
        inputs,
        least=3,
    )


def test_a_users_network_keeps_its_digits_where_its_loss_has_a_tolerance():
    network = classifiers.relu_network(3, 4, 1, key=jr.key(0))
    with pytest.raises(AssertionError, match="are rounded"):
        _assert_full(lambda network, rows: jax.vmap(network)(rows), network, ROWS)
    labels = jnp.ones((5, 1))
    rate, count = jnp.asarray(0.1), jnp.asarray(2)
    _assert_full(gradient_descent._loss, network, ROWS, labels)
    _assert_full(gradient_descent._curvature, network, ROWS, labels, count)
    _assert_full(gradient_descent._advance, network, ROWS, labels, rate, rate, count)


def test_the_loss_of_an_attack_keeps_its_digits():
    network = classifiers.relu_network(3, 4, 1, key=jr.key(0))
    of_network = attacks.NetworkTarget(eqx.nn.Sequential([network.layers[0]]), np.ones(4), 3)
    of_features = attacks.RandomFeaturesTarget(np.ones((6, 3)), jnp.tanh, np.ones(6))
    for target in (of_network, of_features):
        _assert_full(relative_loss, target, jnp.asarray(ROWS[:2]), least=3)


def test_a_clipped_sum_adds_no_rounded_product_to_the_models_own():
    network = classifiers.relu_network(3, 4, 1, key=jr.key(0))

    def loss(model, input, target):
        with full_products():
            return jnp.sum((model(input) - target) ** 2)

    def total(network, inputs, targets):
        return clipped_gradient_sum_in_parts(loss, network, inputs, targets, clip_norm=1.0)

    _assert_full(total, network, jnp.asarray(ROWS), jnp.asarray(LABELS), least=4)

"""Arguments that are refused: one clear error that names them, before any work."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from attack_problems import OwnModel

import jaxdp
from jaxdp import attacks
from jaxdp.attacks import MomentumDescent, RandomFeaturesTarget, RegeneratedWeights
from jaxdp.attacks.optimisers.base import Ending

DRAW = np.random.default_rng(0)
ROWS, LABELS, WEIGHTS = DRAW.normal(size=(3, 4)), DRAW.normal(size=3), DRAW.normal(size=(20, 4))
THETA, ITERATES = DRAW.normal(size=20), DRAW.normal(size=(3, 20))
TARGET = RandomFeaturesTarget(WEIGHTS, jnp.tanh, THETA)
DESCENT = jaxdp.DPGD(0.1, 1.0, 3, 0.5)
RATE = {"learning_rate": 0.1, "num_steps": 2}
MLP = eqx.nn.MLP(4, 2, 5, 1, key=jr.key(0))


def _informed(algorithm=DESCENT, activation=jnp.tanh, num_samples=3, iterates=ITERATES, count=2):
    known = ROWS[:count], LABELS[:count]
    return attacks.without_known_rows(
        iterates, WEIGHTS, activation, algorithm, *known, num_samples=num_samples
    )


def _reconstruct(**more):
    return attacks.reconstruct(TARGET, 3, **{"key": jr.key(0), **more})


CALLS = {
    "activation": [
        lambda value: RandomFeaturesTarget(WEIGHTS, value, THETA),
        lambda value: attacks.gradient_descent_parameters(ROWS, LABELS, WEIGHTS, value, **RATE),
        lambda value: _informed(activation=value),
    ],
    "features": [lambda value: attacks.NetworkTarget(value, THETA, 4)],
    "target": [
        lambda value: attacks.span_residual(ROWS, ROWS, value),
        lambda value: attacks.reconstruct(value, 3, key=jr.key(0)),
    ],
    "algorithm": [lambda value: _informed(algorithm=value)],
    "num_samples": [lambda value: _informed(num_samples=value)],
    "optimiser": [lambda value: _reconstruct(optimiser=value or "none")],
    "key": [lambda value: _reconstruct(key=value)],
    "found": [lambda value: attacks.leak_report(TARGET, value)],
    "trained": [
        lambda value: attacks.two_layer_target(value, THETA),
        lambda value: attacks.network_target(value, THETA),
    ],
    "last": [lambda value: attacks.network_target(MLP, np.ones((2, 5)), last=value or "none")],
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("value", [None, "text", 2.5, jaxdp.DPGD, [1.0, 2.0]], ids=str)
def test_wrong_kinds_end_with_an_error_that_names_the_argument(name, value):
    for call in CALLS[name]:
        with pytest.raises(TypeError, match=rf"^expected (an? |the )?{name}\b"):
            call(value)


STILL, PAIR, ONES = np.zeros((2, 2, 4)), np.eye(2, 4), np.ones((2, 5))


def _scores(runs=STILL, rows=PAIR, noise=0.1, num_samples=1, **more):
    algorithm, nobody = jaxdp.DPGD(1e-3, 1.0, 1, noise), (np.zeros((0, 4)), np.zeros(0))
    given = np.eye(4), jnp.tanh, algorithm, *nobody, rows, np.ones(2)
    return attacks.membership_scores(runs, *given, num_samples=num_samples, **more)


def _tradeoff(rates, others=THETA):
    return attacks.attained_tradeoff(np.ones(3), others, rates)


def _learnt(inputs=ROWS, labels=LABELS, weights=WEIGHTS):
    return attacks.minimum_norm_parameters(inputs, labels, weights, jnp.tanh)


def _report(rows, found=ROWS):
    found = attacks.Reconstruction(jnp.asarray(found), 0.3, False, 3.0, Ending.STALLED, jnp.ones(1))
    return attacks.leak_report(TARGET, found, rows)


def _levenberg(dim):
    target = RandomFeaturesTarget(jnp.ones((50, dim)), jnp.tanh, jnp.ones(50))
    start, key = jnp.ones((1, 2, dim)), jr.key(0)
    return attacks.LevenbergMarquardt().minimise(
        target, start, key=key, max_passes=10, tolerance=1e-7
    )


def _inside_a_transformation():
    def loss(parameters):
        target = RandomFeaturesTarget(WEIGHTS, jnp.tanh, parameters)
        return attacks.reconstruct(target, 3, key=jr.key(0)).loss

    return jax.jit(loss)(jnp.asarray(THETA))


def _network(after=MLP, before=ONES, **more):
    return attacks.network_target(after, before, **more)


OWN = OwnModel(eqx.nn.Linear(5, 2, key=jr.key(0)), eqx.nn.Linear(4, 5, key=jr.key(1)))
NORMED = eqx.nn.Sequential([eqx.nn.Linear(4, 4, key=jr.key(0)), eqx.nn.LayerNorm(4)])
DEEP = eqx.nn.MLP(4, 2, 5, 3, key=jr.key(0))
SPOILT = eqx.tree_at(lambda mlp: mlp.layers[0].bias, MLP, jnp.full(5, jnp.nan))
EQUAL = ROWS[[0, 1, 1]]
VALUES = [
    # Targets.
    (lambda: RandomFeaturesTarget(WEIGHTS, jnp.tanh, THETA[1:]), "each of the 20 features"),
    (lambda: RandomFeaturesTarget(np.nan * WEIGHTS, jnp.tanh, THETA), "finite weights"),
    (lambda: RandomFeaturesTarget(WEIGHTS, jnp.tanh, np.inf * THETA), "finite parameters"),
    (lambda: RandomFeaturesTarget(WEIGHTS, jnp.tanh, 0 * THETA), "zeros only"),
    (lambda: RandomFeaturesTarget(WEIGHTS, jnp.tanh, THETA[None, None]), r"\(p,\) or \(p, k\)"),
    (lambda: RandomFeaturesTarget(WEIGHTS[0], jnp.tanh, THETA), "expected weights of shape"),
    (lambda: RandomFeaturesTarget(WEIGHTS, jax.nn.softmax, THETA), "on each number alone"),
    (lambda: RandomFeaturesTarget(WEIGHTS, jnp.tanh, THETA, block_size=0), "block_size >= 1"),
    (lambda: RegeneratedWeights(jr.key(0), 0, 3), "num_features >= 1"),
    (
        lambda: RandomFeaturesTarget(RegeneratedWeights(jr.key(0), 20, 4), jnp.tanh, THETA[1:]),
        "one row of parameters for each of the 20 features",
    ),
    (lambda: RegeneratedWeights(jr.key(0), 2**31, 3), r"num_features < 2\^31"),
    (lambda: attacks.span_target(ROWS[:, 1:], WEIGHTS, jnp.tanh), "inputs of shape"),
    (lambda: attacks.NetworkTarget(MLP, THETA, 4), r"features of shape \(20,\)"),
    (lambda: attacks.NetworkTarget(SPOILT, np.ones(2), 4), "finite weights of the network"),
    (lambda: attacks.NetworkTarget(lambda x: jnp.ones((4, 3)) @ x, np.ones(4), 2), "one input of"),
    (
        lambda: attacks.NetworkTarget(lambda x: jnp.ones((4, 2)) @ x, np.ones((1, 4)), 2),
        r"transpose the parameters to \(p, k\)",
    ),
    (lambda: _network(NORMED, np.ones((4, 4))), r"last layer is an eqx\.nn\.Linear, got LayerNorm"),
    (lambda: _network(OWN), r"expected last, .* for OwnModel"),
    (lambda: _network(OWN, last=lambda model: model.head), "expected dim, the length d"),
    (lambda: _network(MLP, np.ones((5, 2))), r"last_start of shape \(2, 5\)"),
    (lambda: attacks.two_layer_target(DEEP, np.ones((2, 5))), "depth=1, got depth=3"),
    # Reconstruction.
    (lambda: attacks.reconstruct(TARGET, 20, key=jr.key(0)), "span all parameters"),
    (lambda: _reconstruct(known_inputs=ROWS), "fewer known inputs"),
    (lambda: _reconstruct(known_inputs=ROWS[:2, 1:]), "known_inputs of shape"),
    (lambda: _reconstruct(known_inputs=np.nan * ROWS[:1]), "finite known_inputs"),
    (lambda: _reconstruct(num_starts=0), "num_starts >= 1"),
    (lambda: _reconstruct(max_passes=0), "max_passes > 0"),
    (lambda: _reconstruct(tolerance=-1.0), "tolerance > 0"),
    (lambda: MomentumDescent(0.0), "step_size > 0"),
    (lambda: MomentumDescent(20.0, 1.0), "0 <= momentum < 1"),
    (lambda: attacks.LevenbergMarquardt(damping=0.0), "damping > 0"),
    (lambda: _levenberg(2100), r"at most 4096 unknowns d n .* got 4200"),
    # What is known, and what was found.
    (lambda: _informed(num_samples=2), "fewer known rows than 2"),
    (lambda: _informed(iterates=ITERATES[:1]), "two iterates"),
    (lambda: _informed(iterates=ITERATES[:, 1:]), "iterates of shape"),
    (lambda: _informed(iterates=np.nan * ITERATES), "finite iterates"),
    (lambda: _scores(num_samples=3), "expected 2 known records, all but one, got 0"),
    (lambda: _scores(noise=0.0), "adds noise"),
    (lambda: _scores(np.zeros((2, 4))), "iterates of shape"),
    (lambda: _scores(rows=PAIR[:1]), "inputs of shape"),
    (lambda: _scores(np.zeros((2, 3, 4))), "at most 2 iterates of 1 steps"),
    (lambda: _scores(rows=np.nan * PAIR), "finite inputs"),
    (lambda: _tradeoff([0.0]), "false-positive"),
    (lambda: _tradeoff([[0.1]]), "false-positive"),
    (lambda: _tradeoff([0.1], np.ones(0)), "other_scores"),
    (lambda: attacks.row_errors(ROWS, ROWS[:2]), "as many found rows"),
    (lambda: attacks.row_errors(ROWS, ROWS[:, :2]), "of the same length"),
    (lambda: attacks.row_errors(ROWS[0], ROWS[0]), r"shape \(n, dim\)"),
    (lambda: attacks.row_errors(ROWS[:0], ROWS[:0]), "not empty"),
    (lambda: attacks.row_errors(ROWS, np.nan * ROWS), "finite found_inputs, got 12"),
    (lambda: attacks.span_residual(ROWS[:, 1:], ROWS[:, 1:], TARGET), "rows of length 4"),
    (lambda: _report(ROWS[:2]), r"true_inputs of shape \(3, 4\)"),
    (lambda: _report(0 * ROWS), "directions of true_inputs"),
    # Victims.
    (lambda: _learnt(EQUAL), "in rows 1, 2: are"),
    (lambda: _learnt(ROWS * np.arange(3)[:, None]), "in rows 0: are"),
    (lambda: _learnt(labels=LABELS[:2]), r"labels of shape \(3\)"),
    (lambda: _learnt(weights=WEIGHTS[:, :3]), r"weights of shape \(any, 4\)"),
    (lambda: _learnt(weights=np.nan * WEIGHTS), "finite weights"),
    (lambda: _learnt(labels=np.inf * LABELS), "finite labels"),
    (lambda: _learnt(ROWS[:0], LABELS[:0]), "non-empty inputs"),
]


@pytest.mark.parametrize(("call", "message"), VALUES, ids=[message for _, message in VALUES])
def test_an_argument_out_of_its_range_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


KINDS = [
    (lambda: RandomFeaturesTarget(WEIGHTS, np.tanh, THETA), "jax.numpy operations"),
    (lambda: RegeneratedWeights(jr.key(0), 10, 2.0), "dim to be a Python int"),
    (lambda: RegeneratedWeights(jr.PRNGKey(0), 10, 2), r"a jax\.random\.key"),
    (lambda: _reconstruct(optimiser=MomentumDescent), "expected an optimiser such as"),
    (lambda: _reconstruct(progress="loud"), "expected progress"),
    (_inside_a_transformation, "outside jit and vmap"),
    (lambda: attacks.leak_report(ROWS, None), "expected a target"),
    (lambda: _scores(loss=jaxdp.losses.Softmax(3)), "loss that training used"),
    (lambda: _network(last=lambda model: model), "it leads to MLP"),
    (lambda: _network(last=lambda model: model.nothing), r"AttributeError: .*nothing"),
    (lambda: attacks.two_layer_target(OWN, THETA), "network_target takes other models"),
    (lambda: attacks.two_layer_target(MLP, MLP), "the eqx.nn.Linear, got MLP"),
]


@pytest.mark.parametrize(("call", "message"), KINDS, ids=[message for _, message in KINDS])
def test_an_argument_of_another_kind_is_named(call, message):
    with pytest.raises(TypeError, match=message):
        call()

"""Cases for other implementations: their scripts stand alone, and jaxdp gives the same answers."""

import ast
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import module_of, quick_and_slow

import jaxdp
from jaxdp.algorithms.transformations.linear_state import linear_state
from jaxdp.core.numerics.clipped_moments import descent_factor, variance_factor

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "papers" / "reference_cases"
CASES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
RUNNER = module_of(FOLDER / "check.py")


def _lines_of_code(path):
    """Lines that are neither empty nor a docstring."""
    text = path.read_text()
    module = ast.parse(text)
    opening = module.body[0]
    assert ast.get_docstring(module)
    lines = text.splitlines()[opening.end_lineno :]
    return [line for line in lines if line.strip()]


@pytest.mark.parametrize("name", CASES)
def test_a_script_is_short_and_imports_numpy_alone(name):
    path = FOLDER / f"{name}.py"
    nodes = list(ast.walk(ast.parse(path.read_text())))
    assert len(_lines_of_code(path)) <= 30
    assert not any(isinstance(node, ast.ImportFrom) for node in nodes)
    imported = {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
    assert imported <= {"math", "numpy"}


@pytest.mark.parametrize("name", CASES)
def test_the_script_reproduces_the_answers(name):
    found = RUNNER.reproduced(FOLDER / f"{name}.json")
    assert RUNNER.largest_gap(found, CASES[name]["answers"]) < 1e-10


def test_a_wrong_answer_is_noticed():
    right = CASES["momentum"]["answers"]
    wrong = json.loads(json.dumps(right))
    wrong["nesterov"]["g"][0] *= 1 + 1e-9
    assert RUNNER.largest_gap(wrong, right) > 1e-10
    wrong["nesterov"]["g"][0] = float("nan")
    assert not RUNNER.largest_gap(wrong, right) <= 1e-10
    with pytest.raises(AssertionError):
        RUNNER.largest_gap({"heavy_ball": right["heavy_ball"]}, right)


def test_the_page_lists_every_case_and_its_source():
    page = (FOLDER / "index.md").read_text()
    for name, case in CASES.items():
        assert f"[`{name}`]({name}.json)" in page
        assert f"({name}.py)" in page
        assert {"title", "what", "source", "inputs", "answers", "jaxdp"} <= set(case)
        assert case["title"] in page


# What jaxdp answers, case by case.


def _clipped_moments(ratio):
    ratio = jnp.asarray(ratio)
    return {"descent_factor": descent_factor(ratio), "variance_factor": variance_factor(ratio)}


def _one_pass(rate, given):
    return jaxdp.OnePassDPSGD(rate, given["clip_scale"], given["rho"], given["num_steps"])


def _isotropic(dim, given):
    noise, risk = given["label_noise"], given["initial_risk"]
    return jaxdp.LinearRegression.isotropic(dim, label_noise=noise, initial_risk=risk)


def _isotropic_risk(**given):
    problem = _isotropic(given["dim"], given)
    algorithm = _one_pass(jaxdp.Polynomial(given["peak"], given["power"]), given)
    predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.CoupledODE(), records=4)
    np.testing.assert_allclose(predicted.time[1:], given["time"])
    return {"risk": predicted.risk[1:]}


def _two_eigenvalues(**given):
    half = given["dim"] // 2
    problem = jaxdp.LinearRegression(
        np.repeat(given["eigenvalues"], half),
        np.repeat(given["target"], half),
        given["label_noise"],
    )
    algorithm = _one_pass(jaxdp.Constant(given["learning_rate"]), given)
    predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.CoupledODE(), records=4)
    np.testing.assert_allclose(predicted.time[1:], given["time"])
    return {"risk": predicted.risk[1:], "final_risk": predicted.final_risk}


def _fluctuations(**given):
    count = 4000
    problem = _isotropic(round(given["gamma"] * count), given)
    algorithm = _one_pass(jaxdp.Constant(given["learning_rate"]), given | {"num_steps": count})
    predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.Fluctuations(), records=1)
    return {"final_risk": predicted.final_risk, "n_variance": count * predicted.final_std**2}


def _planned_risk(**given):
    count = round(100 / given["gamma"])
    plan = jaxdp.plan(_isotropic(100, given), num_samples=count, rho=given["rho"])
    return {"final_risk": plan.final_risk, "floor": plan.floor}


def _one_pass_noise(**given):
    algorithm = _one_pass(jaxdp.Polynomial(given["peak"], given["power"]), given)
    steps = jnp.arange(1, given["num_steps"] + 1)
    rates = algorithm.step_size(steps)
    cost = jaxdp.account(algorithm, delta=1e-5)
    return {
        "learning_rate": rates,
        "noise_std": algorithm.noise_std(steps, given["dim"]),
        "rho_of_each_record": np.full(np.sum(np.asarray(rates) > 0), cost.mu),
    }


def _gaussian_privacy(mu, epsilon, delta):
    return {
        "delta": jaxdp.privacy.gaussian_delta(mu, epsilon),
        "epsilon": jaxdp.privacy.gaussian_epsilon(mu, delta),
        "mu": jaxdp.privacy.gaussian_mu(epsilon, delta),
    }


def _zcdp_conversion(zcdp, delta):
    z, at = jnp.asarray(zcdp), jnp.asarray(delta)
    return {
        # The best order's change does not matter: what is left is d(alpha z)/dz.
        "order": jax.vmap(jax.grad(jaxdp.privacy.zcdp_epsilon))(z, at),
        "epsilon": jaxdp.privacy.zcdp_epsilon(zcdp, delta),
        "published": jaxdp.privacy.zcdp_epsilon_published(zcdp, delta),
    }


def _on_rows(given, theory):
    names = ("train_features", "train_labels", "test_features", "test_labels")
    problem = jaxdp.FixedFeatures.from_arrays(*(jnp.asarray(given[name]) for name in names))
    numbers = (given[name] for name in ("learning_rate", "clip_norm", "num_steps", "noise_scale"))
    count = given["num_steps"]
    return jaxdp.predict(problem, jaxdp.DPGD(*numbers), theory=theory, records=count)


def _unclipped_descent(**given):
    predicted = _on_rows(given, jaxdp.UnclippedRecursion())
    parts = {name: predicted.observables[name][-1] for name in ("bias", "variance")}
    return parts | {"risk": predicted.final_risk}


def _clipped_descent(**given):
    return {"risk": _on_rows(given, jaxdp.GaussianClosure(spread_rank=None)).risk[1:]}


def _interpolator(**given):
    names = ("train_inputs", "train_labels", "test_inputs", "test_labels", "weights")
    arrays = [jnp.asarray(given[name]) for name in names]
    problem = jaxdp.RandomFeatures.from_arrays(*arrays, jnp.tanh)
    inputs, labels, _, _, weights = arrays
    return {
        "parameters": jaxdp.attacks.minimum_norm_parameters(inputs, labels, weights, jnp.tanh),
        "risk": problem.interpolator_risk(),
    }


def _hermite_coefficients(max_order):
    functions = {"tanh": jnp.tanh, "relu": jax.nn.relu}
    return {
        name: jaxdp.problems.hermite_coefficients(function, max_order)
        for name, function in functions.items()
    }


def _momentum(learning_rate, momentum, num_steps):
    found = {}
    for name in ("heavy_ball", "nesterov"):
        optimiser = optax.sgd(learning_rate, momentum=momentum, nesterov=name == "nesterov")
        state = linear_state(optimiser, num_steps)
        transition, injection = np.asarray(state.transitions[0]), np.asarray(state.injections[0])
        responses = [
            np.linalg.matrix_power(transition, age) @ injection for age in range(num_steps)
        ]
        variance = sum(response[0] ** 2 for response in responses)
        found[name] = {"F": transition, "g": injection, "variance": variance}
    return found


def _correlated_noise(**given):
    problem, count = _isotropic(given["dim"], given), len(given["rates"])
    found = {"strategy": jaxdp.privacy.square_root_strategy(count, 0.0)}
    strategies = {
        "independent": jaxdp.privacy.independent_strategy(count),
        "square_root": found["strategy"],
    }
    shared = {name: given[name] for name in ("rates", "clip_scale", "rho", "batch_size")}
    for name, strategy in strategies.items():
        algorithm = jaxdp.CorrelatedDPSGD(**shared, strategy=strategy)
        found[name] = jaxdp.predict(problem, algorithm, records=count).risk[1:]
    return found


def _kernel_ridge_noise(**given):
    found, gaussian = [], jaxdp.kernels.Gaussian(1.0)
    budgets = zip(given["epsilon"], given["delta"], given["balance"], strict=True)
    for epsilon, delta, balance in budgets:
        options = {"label_bound": given["label_bound"], "balance": balance}
        learner = jaxdp.kernels.PrivateKernelRidge(gaussian, **options)
        std = learner.noise_std(given["num_samples"], epsilon, delta)
        mu = jaxdp.privacy.gaussian_mu(epsilon, delta)
        found.append((mu, std["C"] * mu * given["num_samples"], std["C"], std["u"]))
    return dict(
        zip(("mu", "sensitivity", "std_of_C", "std_of_u"), np.transpose(found), strict=True)
    )


def _reconstruction_error(mu, dim, num_samples, num_features):
    given = (mu, dim, num_samples, jax.nn.relu)
    ratio = jaxdp.theory.reconstruction.error.one_step_noise_ratio(
        *given, num_features=num_features
    )
    error = jaxdp.theory.one_step_reconstruction_error(*given, num_features=num_features)
    return {"noise_ratio": ratio, "error": error}


# By the names of the functions above.
JAXDP = {name: globals()[f"_{name}"] for name in CASES}
# What compiles an equation, a search, or many small programs.
_DEAR = {
    *("isotropic_risk", "two_eigenvalues", "fluctuations", "momentum", "one_pass_noise"),
    *("planned_risk", "reconstruction_error", "clipped_descent", "unclipped_descent"),
    *("correlated_noise", "zcdp_conversion"),
}


@pytest.mark.parametrize("name", quick_and_slow(CASES, *CASES.keys() - _DEAR))
def test_jaxdp_gives_the_same_answers(name):
    case = CASES[name]
    with jax.enable_x64():
        found = JAXDP[name](**case["inputs"])
    assert RUNNER.largest_gap(found, case["answers"]) < case["jaxdp_tolerance"]

"""Every constructor and function of the contract table: what each kind of argument refuses."""

import importlib
import inspect
import re
import types

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from contracts import ARGUMENTS, MAKERS, ROOMS, TABLE, parts
from helpers import programs_compiled, quick_and_slow
from scipy.sparse import csr_array, csr_matrix

import jaxdp

# Stand in wrong arguments, and in no message: a cell of data, a seed of secret noise.
SECRET, SEED = 4711.25, 2**200
TEXTS = ("0.5", np.str_("0.5"), np.asarray("0.5"), b"0.5")
NOT_REAL = (*TEXTS, True, np.True_, np.asarray(False), 1j, object())
# The values that a number of each kind may not have.
OUT_OF_RANGE = {
    "positive": (0, -1.0, np.nan),
    "finite": (0, -1.0, np.nan, np.inf),
    "non_negative": (-1.0, np.nan),
    "share": (-0.5, 1.5, np.nan),
    "delta": (0.0, 1.0, -1.0, 1e-301, np.nan),
    "number": (),
}
# Each of these takes a scalar. In the plural arrays are taken too.
PLURALS = {"counts": "count"} | {f"{kind}s": kind for kind in OUT_OF_RANGE}
EITHER = (TypeError, ValueError)
# Other words that messages use for an argument.
CALLED = {"num_frequencies": "num_features", "false_positive_rate": "false-positive rates"}
CALLED["false_positive_rates"] = "a row of false-positive rates"


def _collections():
    """What is no array, with the words for it."""
    table = np.full((4, 3), SECRET)
    masked = "a masked one: fill in what is missing first"
    return [
        (np.ma.masked_less(table, 0.1), masked),
        (np.ma.array(np.full(4, SECRET)), masked),
        (csr_matrix(table), r"a sparse csr_matrix: its method toarray\(\) makes an array"),
        (csr_array(table), r"a sparse csr_array: its method toarray\(\) makes an array"),
        (
            types.MappingProxyType({"train": table}),
            r"arrays by name \(mappingproxy\): give one of them",
        ),
    ]


def _vectors(value):
    spoilt = np.array(value, float)
    spoilt.flat[0] = np.nan
    texts = np.full(spoilt.shape, str(SECRET))
    wrong = [(one, TypeError) for one in ("text", object(), texts, [[SECRET], [SECRET] * 2])]
    return [*wrong, (spoilt, ValueError), (spoilt[None], ValueError)]


def _wrong(kind, value):
    """What an argument of a kind may not be, each with its error; `value` is one that it may be."""
    single = PLURALS.get(kind, kind)
    batch = [] if single != kind or kind == "number" else [(np.full(3, 1), EITHER)]
    if single in OUT_OF_RANGE:
        wrong = [(one, TypeError) for one in (*NOT_REAL, jnp.asarray(True))]
        return [*wrong, *batch, *((one, ValueError) for one in OUT_OF_RANGE[single])]
    if single in ("count", "natural"):
        wrong = [(one, TypeError) for one in ("4", True, np.True_, 4.0, np.float32(4), object())]
        return [*wrong, *batch, *((one, ValueError) for one in ([-1, 0], [-1])[kind == "natural"])]
    if kind == "thing":
        no_call = [] if value is None or isinstance(value, type) else [type(value)]
        return [
            (one, TypeError) for one in ("text", 1.5, object(), [SECRET, SECRET], SEED, *no_call)
        ]
    if kind == "vector":
        return _vectors(value)
    if kind == "key":
        wrong = [(one, TypeError) for one in (jr.PRNGKey(0), 0, "key", np.zeros(2, np.uint32))]
        return [*wrong, (jr.split(jr.key(0), 2), ValueError)]
    return {
        "function": [(one, TypeError) for one in ("text", 1.5, [SECRET, SECRET], SEED)],
        "index": [(one, TypeError) for one in ("0", 1.5, object())],
        "seed": [(-1, ValueError), *((one, TypeError) for one in ("1", 1.0, True, np.zeros(2)))],
        "flag": [("yes", TypeError), (3, TypeError)],
        "progress": [("bar", TypeError), (3, TypeError)],
    }[kind]


def _is_optional(parameter):
    return "None" in str(parameter.annotation) or parameter.default is not inspect.Parameter.empty


def _named(name):
    return rf"\b({name}|{CALLED.get(name, name)})"


def _refused(call, good, name, value):
    """The error of a call with one argument changed, and words for that change."""
    case = f"{name}={type(value).__name__} {str(value)[:60]}"
    try:
        call(**good | {name: value})
    except EITHER as error:
        return error, case
    pytest.fail(f"{case} is not refused")


ROWS = [pytest.param(row, id=row.name) for row in TABLE]


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
@pytest.mark.parametrize("row", ROWS)
def test_an_argument_of_a_kind_refuses_what_is_none_of_it_by_name(row):
    call, good = row.call(), row.given()
    parameters = inspect.signature(call).parameters
    for name, kind in row.kinds().items():
        parameter = parameters[name]
        default = None if parameter.default is parameter.empty else parameter.default
        if kind in ("data", "tree"):
            _refuses_collections(call, good, name, kind)
            continue
        wrong = _wrong(kind, good.get(name, default))
        if not _is_optional(parameter):
            wrong.append((None, TypeError))
        for value, error in wrong:
            raised, case = _refused(call, good, name, value)
            message = str(raised)
            assert isinstance(raised, error), (case, repr(raised))
            is_named = re.search(rf"expected .*{_named(name)}|expected real numbers, got", message)
            assert is_named, (case, message)
            assert "\n" not in message, case
            assert len(message) < 300, (case, message)
            for private in (str(SECRET), str(SEED)[:9], "overlaying"):
                assert private not in message, (case, message)


def _refuses_collections(call, good, name, kind):
    """Everything that takes data refuses what is no array in the same words."""
    for value, came in _collections():
        if kind == "tree":
            if not isinstance(value, np.ma.MaskedArray):
                continue
            value = {"weights": value}
        message = rf"^expected {name}s?.* to be an array of numbers, got {came}$"
        with pytest.raises(TypeError, match=message) as raised:
            call(**good | {name: value})
        assert raised.value.__cause__ is None


def _numbers(value):
    """The number as every kind of scalar that holds it."""
    kinds = [float(value), np.float32(value), np.float64(value), np.asarray(value)]
    kinds += [jnp.float32(value), jnp.asarray(value)]
    if value == int(value):
        kinds += [int(value), np.int64(value), np.int32(value), jnp.asarray(int(value))]
    return kinds


def _form(description):
    """All that decides whether a description is compiled for anew."""
    leaves, structure = jax.tree.flatten(description)
    return structure, [
        (type(leaf), leaf.dtype, leaf.shape, getattr(leaf, "weak_type", None))
        if isinstance(leaf, (jax.Array, np.ndarray))
        else (type(leaf), leaf)
        for leaf in leaves
    ]


def _same_numbers(kind, value):
    """Other kinds of scalar in the place of a right number, or of each one in a list of one."""
    if kind in ("count", "natural") and value is not None:
        return [value, *(kind(value) for kind in (np.int64, np.int32, np.uint8))]
    if isinstance(value, float) and kind in OUT_OF_RANGE:
        return _numbers(value)
    if isinstance(value, list) and kind == "vector" and len(set(value)) == 1:
        return [[one] * len(value) for one in _numbers(value[0])]
    return []


@pytest.mark.parametrize("row", MAKERS, ids=lambda row: row.name)
def test_every_kind_of_scalar_makes_the_same_description(row):
    call, good = row.call(), row.given()
    for name, kind in row.kinds().items():
        forms = [
            (repr(value), _form(call(**good | {name: value})))
            for value in _same_numbers(kind, good.get(name))
        ]
        for given, form in forms:
            hash(form[0])
            assert form == forms[0][1], f"{name}={given}"


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.int16, jnp.uint8])
def test_traced_lengths_have_one_type(dtype):
    for algorithm in (parts().one_pass, parts().descent):
        made = [algorithm.replace(num_steps=jnp.asarray(4, kind)) for kind in (dtype, int)]
        assert _form(made[0]) == _form(made[1])
        assert not made[0].num_steps.weak_type


# Of the default theory and simulator, and of the theory that is compiled fastest.
RUNS = {
    "predict": lambda *pair: jaxdp.predict(*pair, records=2),
    "a recursion": lambda *pair: jaxdp.predict(*pair, theory=jaxdp.DiscreteRecursion(), records=2),
    "simulate": lambda *pair: jaxdp.simulate(*pair, num_runs=2, key=jr.key(0), records=2),
}


@pytest.mark.parametrize("name", quick_and_slow(RUNS, "a recursion"))
def test_no_kind_of_scalar_compiles_a_second_program(name):
    # Of a dimension and a length that no other test has, so that something is compiled at all.
    pairs = [
        (
            jaxdp.LinearRegression.isotropic(7, label_noise=v, initial_risk=v),
            jaxdp.OnePassDPSGD(v, clip_scale=v, rho=v, num_steps=11),
        )
        for v in _numbers(2.0)
    ]
    assert programs_compiled(RUNS[name], *pairs[0]) > 0
    for pair in pairs[1:]:
        assert programs_compiled(RUNS[name], *pair) == 0


# Public callables, or arguments of theirs, that need no row, each with its reason.
EXCEPTIONS = {
    "results, which the library makes": "comparison.Comparison privacy.Cost Status "
    "algorithms.AdamConstants algorithms.LinearState algorithms.OptimiserState algorithms.Training "
    "attacks.PredictedMembership attacks.Reconstruction attacks.Verdict planning.Forecast "
    "planning.OnePassPlan planning.TrainingPlan theory.ExcessRisk",
    "with tests of their own": "attacks.predicted_membership.record sweep sweeps.cell_key",
    "a pair of numbers or a rule": "estimators.DPLinearRegression.label_range "
    "schedules.as_schedule.learning_rate",
    "checked by who calls them": "algorithms.adam_constants.num_steps kernels.row_blocks "
    "privacy.FixedOrder.of_share privacy.PoissonSampler.of_share "
    "problems.sphere_inputs.count "
    "theory.ReleaseNoise theory.predicted_excess_risk.num_outputs",
    "any number is right": "attacks.leak_report.found_below kernels.ReleasedFunction.intercept "
    "theory.local_reconstruction_errors.noise_std theory.membership_mu.other_label",
}


def _public_calls():
    """The public functions, classes and further constructors, by their paths below jaxdp."""
    rooms = ["jaxdp", *(f"jaxdp.{room}" for room in ROOMS)]
    seen = set()
    for room in map(importlib.import_module, rooms):
        for name in room.__all__:
            thing = getattr(room, name)
            if not callable(thing) or id(thing) in seen or name == "NotCoveredError":
                continue
            seen.add(id(thing))
            path = f"{room.__name__}.{name}".removeprefix("jaxdp.")
            if name.startswith("Abstract"):
                continue
            yield path, thing
            for method, member in vars(thing).items() if inspect.isclass(thing) else ():
                if isinstance(member, classmethod) and not method.startswith("_"):
                    yield f"{path}.{method}", getattr(thing, method)


NUMBERS = {*OUT_OF_RANGE, "count", "natural", "key"}


def _takes_a_number_or_key(parameter):
    kind, _ = ARGUMENTS.get(parameter.name, (None, None))
    is_number = isinstance(parameter.default, (int, float))
    return (
        kind in NUMBERS
        or re.search(r"\bint\b|\bfloat\b|numpy\.number", str(parameter.annotation)) is not None
        or (is_number and not isinstance(parameter.default, bool))
    )


def test_nothing_public_that_takes_a_number_or_a_key_is_left_out():
    listed = {}
    for row in TABLE:
        listed.setdefault(row.path, set()).update(row.kinds(), row.own_kinds)
    excepted = {name for names in EXCEPTIONS.values() for name in names.split()}
    left_out = [
        f"{path}.{parameter.name}"
        for path, call in _public_calls()
        for parameter in inspect.signature(call).parameters.values()
        if _takes_a_number_or_key(parameter) and parameter.name not in listed.get(path, ())
    ]
    needless = {
        name for name in excepted if not any(f"{left}.".startswith(f"{name}.") for left in left_out)
    }
    assert not needless, " ".join(sorted(needless))
    left_out = [left for left in left_out if not {left, left.rpartition(".")[0]} & excepted]
    assert not left_out, " ".join(left_out)

"""What tells one sweep from another, and what does not."""

import functools
import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.experimental.sparse
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from processes import environment

import jaxdp
from jaxdp.core.digests import UnreadableError, digest
from jaxdp.sweeps.axes import as_axes
from jaxdp.sweeps.program import CellProgram, program_of

AXES = {"c": np.arange(2.0)}


def program_digest(function, values=(1.0, 2.0)):
    """The digest of the program of a function of one axis, c."""
    return CellProgram(function, as_axes({"c": np.array(values)}), 0, jr.key(0)).digest()


def _of_a_set(key, c):
    return {"total": c * len("".join({"first", "second", "third"})), "held": c * jnp.arange(3.0)}


def test_another_process_repeats_a_digest_whatever_its_hash_seed():
    code = "from test_identity import _of_a_set, program_digest as d; print(d(_of_a_set))"
    given = environment(PYTHONHASHSEED="1234")
    given["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == program_digest(_of_a_set)


def _times(factor):
    return lambda key, c: {"x": c * factor}


def _times_inside(factor):
    return lambda key, c: {"x": jax.jit(lambda c: jnp.dot(jnp.ones(len(factor)), factor) * c)(c)}


def _with_rule_of_vmap(factor):
    @jax.custom_batching.custom_vmap
    def doubled(c):
        return c * 2

    @doubled.def_vmap
    def rule(size, is_batched, c):
        return c * factor, is_batched[0]

    return lambda key, c: {"x": doubled(c)}


def _with_rule_of_grad(factor, is_used=True):
    @jax.custom_jvp
    def squared(c):
        return c**2

    @squared.defjvp
    def rule(primals, tangents):
        return squared(*primals), factor * primals[0] * tangents[0]

    return lambda key, c: {"x": (jax.grad(squared) if is_used else squared)(c)}


def _with_gradient(factor):
    @eqx.filter_custom_vjp
    def squared(c):
        return c**2

    squared.def_fwd(lambda is_perturbed, c: (c**2, c))
    squared.def_bwd(lambda c, gradient, is_perturbed, same: factor * c * gradient)
    return lambda key, c: {"x": jax.grad(squared)(c)}


def _drawn_with(own):
    return lambda key, c: {"x": c * jr.normal(own)}


def _on(platform_factor):
    branches = {"cuda": lambda c: c * platform_factor, "default": lambda c: c}
    return lambda key, c: {"x": jax.lax.platform_dependent(c, **branches)}


LONG = np.arange(5000, dtype=np.float32)
# Another number amid a thousand that are not printed, and one digit after those that are.
OTHER = np.where(LONG == 2500, np.nextafter(LONG, np.float32(1e4)), LONG)
ONES = np.ones(2, np.float32)


@pytest.mark.parametrize(
    ("make", "first", "second"),
    [
        (_times, LONG, OTHER),
        (_times, jax.device_put(LONG), jax.device_put(OTHER)),
        (_times_inside, jax.device_put(LONG), jax.device_put(OTHER)),
        (_times, 0.0, -0.0),
        (_times, jax.device_put(ONES), jax.device_put(ONES[:, None])),
        (_times, jax.device_put(ONES), jax.device_put(ONES.astype(jnp.bfloat16))),
        (_with_rule_of_vmap, 2.0, 3.0),
        (_with_rule_of_grad, 2.0, 3.0),
        (_with_gradient, 2.0, 3.0),
        (_on, 2.0, 3.0),
        (lambda name: lambda key, c: {name: c}, "x", "y"),
        (lambda kind: lambda key, c: {"x": c * jr.normal(jr.key(0, impl=kind))}, None, "rbg"),
        (lambda seed: _drawn_with(jr.key(seed)), 0, 1),
    ],
)
def test_programs_are_equal_where_all_their_parts_are(make, first, second):
    assert program_digest(make(first)) == program_digest(make(first))
    assert program_digest(make(first)) != program_digest(make(second))


def test_neither_names_nor_rules_that_are_not_used_nor_earlier_calls_count():
    @jax.jit
    def squared(value):
        return value**2

    @jax.jit
    def renamed(another):
        result = another**2
        return result

    first = program_digest(lambda key, c: {"x": squared(c)})
    squared(np.ones(3))
    assert program_digest(lambda key, c: {"x": squared(c)}) == first
    assert program_digest(lambda key, c: {"x": renamed(c)}) == first
    unused = [_with_rule_of_grad(factor, is_used=False) for factor in (2.0, 3.0)]
    assert program_digest(unused[0]) == program_digest(unused[1])


def _calls(function, **options):
    kind = jax.ShapeDtypeStruct((), jnp.float32)
    return lambda key, c: {"x": function(np.sin, kind, c, **options)}


def _prints(key, c):
    jax.debug.print("{}", c)
    return {"x": c}


def _repeats(key, c):
    called = _calls(jax.pure_callback, vmap_method="sequential")
    return {"x": jax.lax.scan(lambda c, _: (called(key, c)["x"], None), c, None, 3)[0]}


@pytest.mark.parametrize(
    "function", [_calls(jax.pure_callback, vmap_method="sequential"), _prints, _repeats]
)
def test_a_program_that_calls_the_host_needs_a_version(function, tmp_path):
    settings = {"key": jr.key(0), "store": tmp_path / "store", "quiet": True}
    with pytest.raises(ValueError, match=r"a call of the host .*give version="):
        jaxdp.sweep(function, AXES, **settings)
    assert not (tmp_path / "store").exists()
    assert jaxdp.sweep(function, AXES, version="1", **settings).x.shape == (2,)


def test_a_check_of_equinox_needs_no_version(tmp_path):
    def function(*, key, x):
        return {"y": eqx.error_if(x, x < bound, "expected x above the bound")}

    def swept():
        axes = {"x": np.array([1.0, 2.0])}
        return jaxdp.sweep(function, axes, key=jax.random.key(0), store=tmp_path, quiet=True)

    bound = 0.0
    np.testing.assert_array_equal(swept()["y"], [1, 2])
    bound = 0.5
    with pytest.raises(ValueError, match="computes something else"):
        swept()


def test_a_process_whose_function_is_another_program_computes_nothing(tmp_path):
    factor = [2.0]

    class Elsewhere:
        """Computes as another process would that has other sources."""

        def submit(self, function, compute, work, *arguments):
            factor[0] = 3.0
            program_of.cache_clear()
            result = functools.partial(function, compute, work, *arguments)
            return type("Promise", (), {"result": staticmethod(result)})

    function = lambda key, c: {"x": c * factor[0]}  # noqa: E731
    settings = {"key": jr.key(0), "store": tmp_path, "quiet": True, "shard_size": 1}
    with pytest.raises(ValueError, match="the same program wherever it is traced"):
        jaxdp.sweep(function, AXES, executor=Elsewhere(), **settings)
    assert list(tmp_path.glob("shard-*")) == []


def test_looped_values_are_told_apart_by_their_programs(tmp_path):
    axes = {"of": (lambda c: c, lambda c: 2 * c), **AXES}
    settings = {"key": jr.key(0), "quiet": True}

    def applied(key, of, c):
        return {"x": of(c)}

    found = jaxdp.sweep(applied, axes, store=tmp_path / "programs", **settings)
    np.testing.assert_array_equal(found["x"], [[0, 1], [0, 2]])
    axes["of"] = axes["of"][::-1]
    with pytest.raises(ValueError, match="computes something else"):
        jaxdp.sweep(applied, axes, store=tmp_path / "programs", **settings)


# Two ones on the diagonal.
_SPARSE = jax.experimental.sparse.BCOO(
    (np.ones(2, np.float32), np.array([[0, 0], [1, 1]], np.int32)), shape=(2, 2)
)


class _Quantity(np.ndarray):
    unit = ""


@pytest.mark.parametrize(
    "value",
    [
        object.__repr__,
        np.ones(2).view(_Quantity),
        np.ma.masked_array([1.0, 2.0], [0, 1]),
        np.array([1, "a"], object),
        np.polynomial.Polynomial(np.arange(2000.0)),
        _SPARSE,
        open,
    ],
)
def test_what_may_hold_more_than_it_shows_cannot_be_read(value):
    with pytest.raises(UnreadableError):
        digest((1, value))


def test_values_that_differ_have_other_digests():
    values = [1, 1.0, True, "1", b"1", None, 10**5000, (1, (2,)), ((1, 2),), [1, 2], (1, 2)]
    values += [{"a": 1}, {"a": 2}, {1, 2}, np.ones(1, ">f4"), np.ones(1, "<f4"), np.float32(1)]
    values += [jr.key(0), jr.key_data(jr.key(0)), "\ud800", jaxdp.Constant(1.0), np.zeros((0, 2))]
    values += [jaxdp.Constant, jaxdp.Polynomial]
    found = [digest(value) for value in values]
    assert found == [digest(value) for value in values]
    assert len({*found}) == len(values)

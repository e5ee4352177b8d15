"""Operations whose batching somebody else wrote are refused by name, wherever they hide."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_batching import custom_vmap, sequential_vmap
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

import jaxdp


def _outside(method):
    """A call of the host, and one of another library."""

    def callback(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(lambda x: 2 * np.asarray(x), shape, x, vmap_method=method)

    def foreign(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.ffi.ffi_call("no_such_target", shape, vmap_method=method)(x)

    return callback, foreign


@custom_vmap
def mixed(x):
    return x


@mixed.def_vmap
def _adds_others(axis_size, in_batched, x):
    return x + jnp.sum(x, axis=0), True


@sequential_vmap
def one_by_one(x):
    return 2 * x


def callback(method):
    def call(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(lambda x: 2 * np.asarray(x), shape, x, vmap_method=method)

    return call


def foreign(method):
    def call(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.ffi.ffi_call("no_such_target", shape, vmap_method=method)(x)

    return call


_own_p = Primitive("own")
_own_p.def_impl(lambda x: x)
_own_p.def_abstract_eval(lambda x: x)
batching.primitive_batchers[_own_p] = lambda args, dims: (args[0] + jnp.sum(args[0], 0), dims[0])
mlir.register_lowering(_own_p, lambda context, x: [x])


@jax.custom_vjp
def _through_its_derivative(x):
    return x


_through_its_derivative.defvjp(lambda x: (x, None), lambda kept, g: (mixed(g),))


def plainly(operation):
    return lambda weight, x, y: jnp.sum(weight * operation(x))


def compiled(operation):
    return lambda weight, x, y: jnp.sum(weight * jax.jit(operation)(x))


def in_a_scan(operation):
    def loss(weight, x, y):
        return jnp.sum(weight * jax.lax.scan(lambda c, _: (operation(c), None), x, length=2)[0])

    return loss


def in_a_branch(operation):
    def loss(weight, x, y):
        return jnp.sum(weight * jax.lax.cond(y > 0, operation, jnp.sin, x))

    return loss


def in_a_rule(operation):
    @jax.custom_vjp
    def product(weight, x):
        return jnp.sum(weight * x)

    product.defvjp(
        lambda weight, x: (product(weight, x), x),
        lambda x, g: (g * operation(x), jnp.zeros_like(x)),
    )
    return lambda weight, x, y: product(weight, x)


PLACES = [plainly, compiled, in_a_scan, in_a_branch, in_a_rule]
MIXING = {
    "custom_vmap_call with the rule _adds_others": mixed,
    "pure_callback with vmap_method='broadcast_all'": _outside("broadcast_all")[0],
    "ffi_call with vmap_method='broadcast_all'": _outside("broadcast_all")[1],
    f"own with a batching rule from {__name__}": _own_p.bind,
}


def norms(loss):
    return jaxdp.clipping.per_sample_gradient_norms(
        loss, jnp.ones(3), jnp.ones((4, 3)), jnp.zeros(4)
    )


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("name", MIXING)
def test_operations_that_may_mix_samples_are_refused(name, place):
    with pytest.raises(ValueError, match="treat each sample alone") as found:
        norms(place(MIXING[name]))
    assert name in str(found.value)


def test_a_derivative_that_mixes_samples_is_refused():
    def loss(weight, x, y):
        return jnp.sum(_through_its_derivative(weight * x))

    with pytest.raises(ValueError, match="custom_vmap_call with the rule _adds_others"):
        norms(loss)


def test_a_derivative_that_reaches_a_named_axis_is_refused():
    @jax.custom_vjp
    def averaged(x):
        return x

    averaged.defvjp(lambda x: (x, None), lambda kept, g: (jax.lax.pmean(g, "batch"),))

    def clipped(_):
        return norms(lambda weight, x, y: jnp.sum(averaged(weight * x)))

    with pytest.raises(ValueError, match="psum over the axis batch"):
        jax.vmap(clipped, axis_name="batch")(jnp.zeros(2))


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize(
    "operation", [one_by_one, _outside("sequential")[0]], ids=["map", "callback"]
)
def test_operations_that_take_samples_one_by_one_are_not(operation, place):
    found = norms(place(operation))
    assert np.all(np.isfinite(found))
    assert np.all(found > 0)

"""Arrays on Explicit axes; `tests/support/eight_devices.py` has what eight devices make of them."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxdp
from jaxdp.core.arrays import as_float, gathered, on_auto_axes

INPUTS = np.arange(24.0, dtype=np.float32).reshape(8, 3) / 24
SAMPLER = jaxdp.privacy.FixedSizeBatches(8, 4)


def _on_a_mesh(kind):
    mesh = jax.make_mesh((1,), ("rows",), axis_types=(kind,))
    return jax.device_put(INPUTS, NamedSharding(mesh, PartitionSpec("rows")))


def _loss(weight, x, y):
    return (weight @ x - y) ** 2


CALLS = {
    "sum": lambda x: jaxdp.clipped_gradient_sum(_loss, jnp.ones(3), x, x[:, 0], clip_norm=1.0),
    "compiled": jax.jit(
        lambda x: jaxdp.clipped_gradient_sum(_loss, jnp.ones(3), x, x[:, 0], clip_norm=1.0)
    ),
    "train": lambda x: (
        jaxdp.train(
            jaxdp.PrivateOptimiser(
                optax.sgd(0.1), clip_norm=1.0, noise_multiplier=1.0, num_steps=2, sampler=SAMPLER
            ),
            _loss,
            jnp.ones(3),
            x,
            x[:, 0],
            key=jax.random.key(0),
        ).model
    ),
    "problem": lambda x: jaxdp.FixedFeatures.from_arrays(x, x[:, 0], x, x[:, 0]).train_features,
    "blocks": lambda x: next(jaxdp.kernels.row_blocks(jaxdp.kernels.IdentityFeatures(3), x)),
}


@pytest.mark.parametrize("name", CALLS)
def test_arrays_on_explicit_axes_are_taken_as_those_on_auto_axes(name):
    spread = _on_a_mesh(AxisType.Explicit)
    assert "rows" in str(jax.typeof(spread))
    wanted = CALLS[name](INPUTS)
    for found in (CALLS[name](spread), CALLS[name](_on_a_mesh(AxisType.Auto))):
        for leaf, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(leaf, other, rtol=1e-5, atol=1e-6)


def test_only_arrays_on_explicit_axes_are_gathered():
    assert isinstance(gathered(_on_a_mesh(AxisType.Explicit)), np.ndarray)
    auto = _on_a_mesh(AxisType.Auto)
    assert gathered(auto) is auto
    assert as_float(auto).sharding == auto.sharding
    assert gathered("rows") == "rows"


def test_a_function_on_auto_axes_gives_back_what_is_no_array():
    function = on_auto_axes(lambda x, name: ({"name": name, "row": x[jnp.array([1, 1])]}, None))
    found, nothing = function(_on_a_mesh(AxisType.Explicit), "a word")
    assert (found["name"], nothing) == ("a word", None)
    np.testing.assert_array_equal(found["row"], INPUTS[[1, 1]])

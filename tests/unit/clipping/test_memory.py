"""Temporary memory of clipped sums, as the compiler counts it, and what bounds it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from clipping_models import FAMILIES, formed_gradients, reference, targets
from jax import ShapeDtypeStruct as Shape

import jaxdp
from jaxdp.clipping.ghost import ghost_pass
from jaxdp.clipping.ghost.ghost_pass import GhostPass
from jaxdp.clipping.ghost.ghosts import OuterProduct


def _at_positions(weight, x, y):
    return jnp.sum(jnp.sin(x @ weight))


def _convolved(kernel, image, y):
    return jnp.sum(jnp.sin(jax.lax.conv(image[None], kernel, (1, 1), "VALID")))


def _looked_up(table, words, y):
    return jnp.sum(jnp.sin(table[words]))


ATTEND, STATIC = eqx.partition(
    eqx.filter_eval_shape(eqx.nn.MultiheadAttention, 2, 64, key=jr.key(0)),
    lambda leaf: isinstance(leaf, Shape),
)


def _attended(weights, x, y):
    return jnp.sum(jnp.sin(eqx.combine(weights, STATIC)(x, x, x)))


def _network(weights, x, y):
    for weight in weights:
        x = jnp.tanh(weight @ x)
    return jnp.sum(x**2)


# kind: (loss, weights, shape of an input, numbers that products with the weights read and give)
KINDS = {
    "one position": (_at_positions, Shape((300, 400), float), Shape((300,), float), 700),
    "layers": (_network, 4 * (Shape((64, 64), float),), Shape((64,), float), 512),
    "positions": (_at_positions, Shape((64, 96), float), Shape((12, 64), float), 1920),
    "many positions": (_at_positions, Shape((16, 8), float), Shape((64, 16), float), 1536),
    "convolution": (
        _convolved,
        Shape((256, 32, 3, 3), float),
        Shape((32, 5, 5), float),
        9 * 288 + 9 * 256,
    ),
    "embedding": (_looked_up, Shape((500, 16), float), Shape((40,), int), 640),
    "wide table": (_looked_up, Shape((5000, 16), float), Shape((4,), int), 64),
    "attention": (_attended, ATTEND, Shape((8, 64), float), 2 * 512 + 4 * 512),
}


def _share(kind, batch):
    """Temporary memory over patches, outputs and four copies of the weights together."""
    loss, weights, input, numbers = KINDS[kind]

    def clipped(weights, inputs, targets):
        # A loss of this call's own, which no call before has compiled.
        own = lambda *sample: loss(*sample)  # noqa: E731
        return jaxdp.clipped_gradient_sum(own, weights, inputs, targets, clip_norm=1.0)[0]

    inputs = Shape((batch, *input.shape), input.dtype)
    program = jax.jit(clipped).lower(weights, inputs, Shape((batch,), float)).compile()
    size = sum(leaf.size for leaf in jax.tree.leaves(weights))
    return program.memory_analysis().temp_size_in_bytes / (4 * (batch * numbers + 4 * size))


# A small batch is where copies of the weights are most of it.
@pytest.mark.parametrize(
    ("kind", "batch"),
    [
        *((kind, 1024) for kind in KINDS),
        *((kind, 64) for kind in ("layers", "positions", "convolution", "wide table")),
    ],
)
@pytest.mark.optimised
def test_memory_is_that_of_patches_and_outputs_and_four_copies_of_the_weights(kind, batch):
    assert _share(kind, batch) <= 1


@pytest.mark.optimised
@pytest.mark.parametrize("kind", ["positions", "convolution"])
def test_a_whole_batch_at_a_time_would_take_more(kind, monkeypatch):
    monkeypatch.setattr(GhostPass, "largest_microbatch", lambda self, num_samples: num_samples)
    assert _share(kind, 64) > 1


@pytest.mark.parametrize(
    "family",
    [
        *("several positions", "function of a weight", "products with batch axes"),
        *("tied embedding", "transposed convolution"),
        pytest.param("convolutions", marks=pytest.mark.slow),
        pytest.param("attention", marks=pytest.mark.slow),
    ],
)
def test_a_batch_cut_for_memory_has_the_same_sum(family, monkeypatch):
    loss, model, draw, _ = FAMILIES[family]
    batch = draw(jr.key(0)), targets(jr.key(1))
    sizes, honest = [], GhostPass.backward

    def watched(self, samples):
        sizes.append(len(samples[0]))
        return honest(self, samples)

    monkeypatch.setitem(ghost_pass._FEW_BYTES, "cpu", 0)
    monkeypatch.setattr(GhostPass, "backward", watched)
    total, norms = jaxdp.clipped_gradient_sum(lambda *s: loss(*s), model, *batch, clip_norm=0.5)
    assert max(sizes) < len(batch[1])
    wanted, wanted_norms = reference(loss, model, draw(jr.key(0)), batch[1], 0.5)
    np.testing.assert_allclose(norms, wanted_norms, rtol=2e-6)
    for found, expected in zip(jax.tree.leaves(total), wanted, strict=True):
        np.testing.assert_allclose(found, expected, atol=4e-6 * np.sum(np.minimum(norms, 0.5)))


@pytest.mark.parametrize(
    ("formula", "size"),
    [
        *(("nk,ok->no", None), ("nk,eok->neo", None)),
        pytest.param("nek,eko->neo", 520, marks=pytest.mark.slow),
    ],
)
def test_slices_of_a_wide_weight_are_put_together_again(formula, size, monkeypatch):
    cut, honest = [], OuterProduct._slice

    def watched(self, held, at, number):
        cut.append(number)
        return honest(self, held, at, number)

    monkeypatch.setattr(OuterProduct, "_slice", watched)
    inputs, weight, outputs = formula.replace("->", ",").split(",")
    lengths = {"n": 1040 if size else 520, "k": 700, "o": 300, "e": 2}
    rng = np.random.default_rng(0)
    x, w, y = (
        rng.normal(size=[lengths[name] for name in names]).astype(np.float32)
        for names in (inputs, weight, outputs)
    )

    def loss(w, x, y):
        return jnp.sum(jnp.einsum(formula.replace("n", ""), x, w) * y)

    options = {"clip_norm": 100.0, "microbatch_size": size}
    total, norms = jaxdp.clipped_gradient_sum(loss, jnp.asarray(w), x, y, **options)
    assert set(cut) == {2}
    # The gradient is the product of x and y.
    x, y = (part.astype(np.float64) for part in (x, y))
    row = np.einsum(f"{inputs},{outputs}->n{weight}", x[:1], y[:1])
    np.testing.assert_allclose(norms[0], np.linalg.norm(row), rtol=1e-6)
    factors = np.minimum(1, 100.0 / np.asarray(norms, np.float64))
    expected = np.einsum(f"n,{inputs},{outputs}->{weight}", factors, x, y)
    np.testing.assert_allclose(total, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("layout", "groups"), [(("NCHW", "OIHW", "NCHW"), 1), (("HWNC", "IHWO", "CNWH"), 2)]
)
def test_a_convolution_of_any_layout_is_that_of_jax(layout, groups):
    shapes = {"N": 1, "C": 4, "H": 7, "W": 6}, {"O": 6, "I": 4 // groups, "H": 3, "W": 2}
    keys = jr.split(jr.key(0), 3)
    image = jr.normal(keys[0], (5, *(shapes[0][name] for name in layout[0])))
    kernel = jr.normal(keys[1], [shapes[1][name] for name in layout[1]])
    names = {"feature_group_count": groups, "rhs_dilation": (1, 2), "lhs_dilation": (2, 1)}

    def loss(model, x, y):
        kernel, scale = model
        options = {"dimension_numbers": layout, **names}
        padding = ((1, 0), (2, 1))
        found = jax.lax.conv_general_dilated(scale * x, kernel, (2, 1), padding, **options)
        return jnp.sum(jnp.sin(found) * y)

    model, weights = (kernel, jnp.ones(())), jnp.arange(5.0)
    total, norms = jaxdp.clipped_gradient_sum(loss, model, image, weights, clip_norm=1e9)
    formed = formed_gradients(loss, model, image, weights)
    for found, rows in zip(total, formed, strict=True):
        np.testing.assert_allclose(found, rows.sum(0), rtol=1e-4, atol=1e-4)
    lengths = np.sqrt(sum(np.sum(np.square(rows.reshape(5, -1)), axis=1) for rows in formed))
    np.testing.assert_allclose(norms, lengths, rtol=1e-5)

"""Model families that per-sample clipping is tested on, and the reference without jaxdp."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from helpers import MadeWhenAsked

BATCH = 7


def _key():
    """The same key for all weights: gradients are compared, and no law of the weights matters."""
    return jr.key(3)


def cross_entropy(model, inputs, target):
    return optax.softmax_cross_entropy_with_integer_labels(model(inputs), target)


def reference(loss, model, inputs, targets, clip_norm):
    """Clipped sum and norms from gradients formed one by one, squared and summed in float64."""
    gradients = formed_gradients(loss, model, inputs, targets)
    rows = [np.asarray(leaf, np.float64).reshape(len(leaf), -1) for leaf in gradients]
    norms = np.sqrt(sum((row**2).sum(axis=1) for row in rows))
    factors = np.minimum(1, clip_norm / np.where(norms > 0, norms, 1))
    return [np.tensordot(factors, np.asarray(leaf, np.float64), 1) for leaf in gradients], norms


@eqx.filter_jit
def formed_gradients(loss, model, inputs, targets):
    """Every per-sample gradient, as a list of weights with a leading batch axis."""
    weights, static = eqx.partition(model, eqx.is_inexact_array)

    def gradient(inputs, target):
        return jax.grad(lambda w: loss(eqx.combine(w, static), inputs, target))(weights)

    return jax.tree.leaves(jax.vmap(gradient)(inputs, targets))


class Convolutions(eqx.Module):
    """Stride, uneven padding, dilation, groups and bias, normalised within a sample."""

    first: eqx.nn.Conv2d
    second: eqx.nn.Conv2d
    normalise: eqx.nn.GroupNorm
    last: eqx.nn.Linear

    def __init__(self, key):
        keys = jr.split(key, 3)
        self.first = eqx.nn.Conv2d(2, 4, 3, stride=2, padding=1, key=keys[0])
        uneven = ((1, 0), (0, 2))
        self.second = eqx.nn.Conv2d(4, 6, 2, dilation=2, groups=2, padding=uneven, key=keys[1])
        self.normalise = eqx.nn.GroupNorm(2, 6)
        self.last = eqx.nn.Linear(6 * 4 * 5, 3, key=keys[2])

    def __call__(self, image):
        hidden = jax.nn.relu(self.first(image))
        return self.last(jnp.tanh(self.normalise(self.second(hidden))).ravel())


class Attention(eqx.Module):
    """Embedded tokens, a position table, attention, a mean over positions."""

    tokens: eqx.nn.Embedding
    positions: jax.Array
    normalise: eqx.nn.LayerNorm
    attend: eqx.nn.MultiheadAttention
    last: eqx.nn.Linear

    def __init__(self, key):
        keys = jr.split(key, 4)
        self.tokens = eqx.nn.Embedding(11, 8, key=keys[0])
        self.positions = jr.normal(keys[1], (5, 8))
        self.normalise = eqx.nn.LayerNorm(8)
        self.attend = eqx.nn.MultiheadAttention(2, 8, key=keys[2])
        self.last = eqx.nn.Linear(8, 3, key=keys[3])

    def __call__(self, words):
        hidden = jax.vmap(self.normalise)(jax.vmap(self.tokens)(words) + self.positions)
        return self.last((hidden + self.attend(hidden, hidden, hidden)).mean(0))


class Recurrent(eqx.Module):
    """A cell in a scan, before a layer."""

    cell: eqx.nn.GRUCell
    last: eqx.nn.Linear

    def __call__(self, sequence):
        def step(state, inputs):
            return self.cell(inputs, state), None

        return self.last(jax.lax.scan(step, jnp.zeros(4), sequence)[0])


def _linear(size_in=4, size_out=4):
    return eqx.nn.Linear(size_in, size_out, key=_key())


def _normal(*shape):
    return jr.normal(_key(), shape)


def _vectors(key):
    return jr.normal(key, (BATCH, 4))


def _images(key):
    return jr.normal(key, (BATCH, 2, 9, 9))


def _words(key):
    return jr.randint(key, (BATCH, 5), 0, 11)


def _sequences(key):
    return jr.normal(key, (BATCH, 5, 3))


def _with_keys(*shape):
    """Normal numbers of this shape and a key of its own for each sample."""

    def drawn(key):
        values_key, own_key = jr.split(key)
        return {"values": jr.normal(values_key, (BATCH, *shape)), "key": jr.split(own_key, BATCH)}

    return drawn


def _repeated(layer, inputs, target):
    return cross_entropy(lambda x: layer(jnp.tanh(layer(jnp.tanh(layer(x))))), inputs, target)


def _at_positions(layer, inputs, target):
    return jnp.sum(jnp.sin(jax.vmap(layer)(inputs.reshape(2, 2)) * (1 + target)))


def _wide_at_positions(layer, inputs, target):
    positions = jnp.stack([jnp.tile(inputs, 3), jnp.tile(inputs[::-1], 3)])
    return jnp.sum(jnp.sin(jax.vmap(layer)(positions) * (1 + target)))


def _penalised(layer, inputs, target):
    return cross_entropy(layer, inputs, target) + 0.3 * jnp.sum(layer.weight**2)


def _tied(table, words, target):
    return cross_entropy(lambda x: table @ jnp.tanh(table[x].sum(0)), words, target)


def _dropped(layer, inputs, target):
    kept = jr.bernoulli(inputs["key"], 0.5, (4,))
    return cross_entropy(layer, inputs["values"] * kept, target)


def _ensemble(layers, inputs, target):
    outputs = eqx.filter_vmap(lambda layer: layer(inputs))(layers)
    return jnp.sum(jnp.tanh(outputs) ** 2) * (1 + target)


def _low_rank(factors, inputs, target):
    left, right, layer = factors
    return cross_entropy(lambda x: left @ (right @ layer(x)) + (left @ right) @ x, inputs, target)


def _squashed(weight, inputs, target):
    return cross_entropy(lambda x: jax.nn.softplus(weight) @ x, inputs, target)


@jax.custom_vjp
def _scaled_sum(weight, inputs):
    return jnp.sum(weight * inputs)


_scaled_sum.defvjp(
    lambda weight, inputs: (_scaled_sum(weight, inputs), (weight, inputs)),
    lambda kept, cotangent: (2 * cotangent * kept[1], cotangent * kept[0]),
)


def _own_rule(model, inputs, target):
    weight, layer = model
    return _scaled_sum(weight, layer(inputs)) * (1 + target)


def _both_mapped(layers, inputs, target):
    """A product with batch axes: each layer has inputs of its own."""
    hidden = jnp.einsum("abc,ac->ab", layers, jnp.stack([inputs, inputs**2, inputs[::-1]]))
    return jnp.sum(jnp.sin(hidden)) * (1 + target)


def _looked_up(mode):
    """Rows by a gather of one mode, some of them outside of the table, on either side."""

    def loss(table, words, target):
        rows = table.at[words - 3].get(mode=mode, fill_value=0, wrap_negative_indices=False)
        weights = jnp.arange(1.0, 6.0) * jnp.where(jnp.arange(5) % 2 == 0, 1, -1)
        return jnp.sum(jnp.sin(rows.sum(1)) * weights) * (1 + target)

    return loss


def _few_bits(table, words, target):
    """Whole numbers that cannot hold the number of rows."""
    rows = jax.vmap(lambda word: jax.lax.dynamic_index_in_dim(table, word, 0, False))(words)
    return jnp.sum(jnp.sin(rows) * jnp.array([1.0, -0.9, 0.5, -2.0, 1.1])[:, None]) * (1 + target)


def _either_row(table, inputs, target):
    return jnp.sum(jnp.where(inputs > 0, table[0], table[1]) * jnp.sin(inputs)) * (1 + target)


def _alone(weight, inputs, target):
    return jnp.sum(weight**2) / 2


def _transposed(layer, inputs, target):
    return jnp.sum(jnp.sin(layer(inputs.reshape(2, 2))) * (1 + target))


def _groups_of_the_batch(kernel, inputs, target):
    found = jax.lax.conv_general_dilated(
        jnp.stack([inputs, 2 * inputs])[:, None], kernel, (1,), "SAME", batch_group_count=2
    )
    return jnp.sum(jnp.tanh(found) * (1 + target))


def _backwards(model, sequence, target):
    """A learnt start, and states that are read at every step."""
    cell, start, last = model

    def step(state, inputs):
        state = cell(inputs, state)
        return state, state[0]

    def outputs(sequence):
        _, states = jax.lax.scan(step, (start, jnp.zeros(4)), sequence, reverse=True)
        return last(jnp.tanh(states).sum(0))

    return cross_entropy(outputs, sequence, target)


def _stacked(blocks, tokens, target):
    """Blocks of attention, their weights stacked, each with a key of its own and checkpointed."""
    arrays, static = eqx.partition(blocks, eqx.is_array)
    keys = jr.split(tokens["key"], 3)

    @jax.checkpoint
    def block(hidden, given):
        arrays, key = given
        normalise, attend, mix = eqx.combine(arrays, static)
        normed = jax.vmap(normalise)(hidden)
        hidden = hidden + attend(normed, normed, normed)
        return hidden + eqx.nn.Dropout(0.5)(jnp.tanh(jax.vmap(mix)(hidden)), key=key), None

    hidden = jax.lax.scan(block, tokens["values"], (arrays, keys))[0]
    return jnp.sum(jnp.sin(hidden.mean(0))) * (1 + target)


def _blocks():
    def block(key):
        attend = eqx.nn.MultiheadAttention(2, 4, key=key)
        return eqx.nn.LayerNorm(4), attend, eqx.nn.Linear(4, 4, key=key)

    return eqx.filter_vmap(block)(jr.split(_key(), 3))


def _by_index(layers, inputs, target):
    """Weights handed from turn to turn, one of them taken by number."""

    def body(at, carry):
        layers, hidden = carry
        return layers, jnp.tanh(layers[at] @ hidden)

    outputs = jax.lax.fori_loop(0, 3, body, (layers, inputs))[1]
    return jnp.sum(outputs) * (1 + target)


def _filtered(kernels, inputs, target):
    """A kernel that every turn shares, and stacked depthwise ones."""
    shared, stacked = kernels

    def turn(signal, kernel):
        signal = jnp.tanh(jax.lax.conv(signal, shared, (1,), "SAME"))
        dimensions = ("NCH", "OIH", "NCH")
        return signal + jax.lax.conv_general_dilated(
            signal, kernel, (1,), "SAME", dimension_numbers=dimensions, feature_group_count=2
        ), None

    signal = jnp.stack([inputs, inputs[::-1]])[None]
    return jnp.sum(jnp.sin(jax.lax.scan(turn, signal, stacked)[0])) * (1 + target)


def _looped_rows(table, words, target):
    """Rows whose numbers depend on the rows before."""

    def turn(state, word):
        state = jnp.sin(state + table[(word + (state[0] > 0)) % 11])
        return state, None

    return jnp.sum(jax.lax.scan(turn, jnp.ones(3), words)[0]) * (1 + target)


def _read_twice(weights, inputs, target):
    """A weight and its transpose, a scale, one that is added to another in the loop."""
    square, scale, other = weights

    def turn(hidden, _):
        hidden = scale * jnp.tanh(square @ (square.T @ hidden)) + jnp.diag(other)
        return hidden, jnp.sum(jnp.where(hidden[0] > 0, other, 0))

    hidden, more = jax.lax.scan(turn, inputs, length=3)
    chosen = jax.lax.cond(inputs[0] > 0, lambda: other[0], lambda: other[1])
    return (jnp.sum(hidden) + jnp.sum(more) + chosen @ inputs) * (1 + target)


def _nested(weights, inputs, target):
    outer, inner = weights

    def turn(hidden, _):
        hidden = jax.lax.fori_loop(0, 2, lambda _, h: jnp.tanh(inner @ h), hidden)
        return jnp.tanh(outer @ hidden), None

    return jnp.sum(jax.lax.scan(turn, inputs, length=3)[0]) * (1 + target)


def _low_rank_change(frozen, factors, inputs, target):
    left, right = factors
    return cross_entropy(lambda x: frozen(x) + left @ (right @ x), inputs, target)


def _depthwise(model, inputs, target):
    convolve, normalise = model
    hidden = convolve(jnp.stack([inputs, inputs[::-1]]))
    return jnp.sum(jnp.sin(jax.vmap(normalise, 1)(hidden)) * (1 + target))


def _complex(weight, inputs, target):
    return jnp.sum(jnp.abs(weight @ jnp.fft.fft(inputs)) ** 2) * (1 + target)


@jax.custom_vjp
def _sign_of_gradient(weight):
    return weight


_sign_of_gradient.defvjp(lambda weight: (weight, None), lambda _, g: (jnp.sign(g),))


def _straight_through(weight, inputs, target):
    return jnp.sum(_sign_of_gradient(weight) @ inputs) * (target - 1)


def _rounded(weight, inputs, target):
    return jnp.sum(jax.lax.reduce_precision(weight, 8, 7) @ inputs) * (target - 0.9)


def _bytes(key):
    return jr.randint(key, (BATCH, 5), 0, 256).astype(jnp.uint8)


def _ensemble_layers():
    return eqx.filter_vmap(lambda key: eqx.nn.Linear(4, 2, key=key))(jr.split(_key(), 3))


def _family(loss, model, inputs=_vectors, falls_back=()):
    """Loss, model, what draws inputs from a key, and positions of the weights that fall back."""
    return loss, model, inputs, set(falls_back)


def _lstm():
    return eqx.nn.LSTMCell(3, 4, key=_key()), jnp.ones(4), _linear()


FAMILIES = MadeWhenAsked(
    {
        "network": lambda: _family(cross_entropy, eqx.nn.MLP(4, 3, 6, 2, key=_key())),
        "convolutions": lambda: _family(cross_entropy, Convolutions(_key()), _images),
        "attention": lambda: _family(cross_entropy, Attention(_key()), _words),
        "recurrent": lambda: _family(
            cross_entropy, Recurrent(eqx.nn.GRUCell(3, 4, key=_key()), _linear()), _sequences
        ),
        # The start is a carry.
        "backwards in time": lambda: _family(_backwards, _lstm(), _sequences, {3}),
        "stacked blocks in a loop": lambda: _family(_stacked, _blocks(), _with_keys(3, 4)),
        "loop by index": lambda: _family(_by_index, _normal(3, 4, 4) / 2),
        "convolutions in a loop": lambda: _family(
            _filtered, (_normal(2, 2, 3) / 3, _normal(3, 2, 1, 3) / 3)
        ),
        "rows in a loop": lambda: _family(_looped_rows, _normal(11, 3), _words),
        "several reads in a loop": lambda: _family(
            _read_twice, (_normal(4, 4), jnp.ones(4), _normal(4, 4)), falls_back={2}
        ),
        "nested loops": lambda: _family(_nested, (_normal(4, 4), _normal(4, 4)), falls_back={1}),
        "frozen layer with trained factors": lambda: _family(
            jax.tree_util.Partial(_low_rank_change, _linear()), (_normal(4, 2), _normal(2, 4))
        ),
        "depthwise convolution and scale": lambda: _family(
            _depthwise, (eqx.nn.Conv1d(2, 4, 2, groups=2, key=_key()), eqx.nn.RMSNorm(4))
        ),
        "repeated layer": lambda: _family(_repeated, _linear()),
        "several positions": lambda: _family(_at_positions, _linear(2, 5)),
        "wide layer at positions": lambda: _family(_wide_at_positions, _linear(12, 16)),
        "penalised weight": lambda: _family(_penalised, _linear()),
        "tied embedding": lambda: _family(_tied, _normal(11, 3), _words),
        "per-sample keys": lambda: _family(_dropped, _linear(), _with_keys(4)),
        "ensemble of weights": lambda: _family(_ensemble, _ensemble_layers()),
        "product of weights": lambda: _family(
            _low_rank, (_normal(4, 2), _normal(2, 4), _linear()), falls_back={0, 1}
        ),
        "function of a weight": lambda: _family(_squashed, _normal(4, 4)),
        "products with batch axes": lambda: _family(_both_mapped, _normal(3, 5, 4)),
        "rows, clipped": lambda: _family(_looked_up("clip"), _normal(6, 3), _words),
        "rows, filled": lambda: _family(_looked_up("fill"), _normal(6, 3), _words),
        "rows by bytes": lambda: _family(_few_bits, _normal(300, 3), _bytes),
        "two views of one weight": lambda: _family(_either_row, _normal(2, 4), falls_back={0}),
        "loss of the weight alone": lambda: _family(_alone, _normal(4), falls_back={0}),
        "transposed convolution": lambda: _family(
            _transposed, eqx.nn.ConvTranspose1d(2, 3, 2, stride=2, key=_key())
        ),
        "groups of the batch": lambda: _family(
            _groups_of_the_batch, _normal(4, 1, 3), falls_back={0}
        ),
        "complex intermediates": lambda: _family(_complex, _normal(4, 4)),
        "sign of the gradient": lambda: _family(
            _straight_through, jnp.ones((4, 4)), falls_back={0}
        ),
        "rounded weight": lambda: _family(_rounded, _normal(4, 4), falls_back={0}),
        "derivative rule of its own": lambda: _family(
            _own_rule, (jnp.arange(4.0), _linear()), falls_back={0}
        ),
    }
)


def targets(key):
    return jr.randint(key, (BATCH,), 0, 3)

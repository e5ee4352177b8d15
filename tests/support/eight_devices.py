"""What `test_devices.py` runs in a process that simulates eight devices."""

import json
import sys
from functools import partial
from unittest import mock

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from clipping_models import cross_entropy
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from killed_training import INPUTS, START, trained
from killed_training import optimiser as private_optimiser

import jaxdp
from jaxdp.clipping.per_sample import clipped_gradient_sum_in_parts
from jaxdp.clipping.two_part_sum import sum_over_devices
from jaxdp.privacy import ShuffledEpochs

BATCH = 32


def _mesh():
    return jax.make_mesh((8,), ("batch",), axis_types=(AxisType.Auto,))


def _on_all(mesh, *arrays):
    return [jax.device_put(one, NamedSharding(mesh, P("batch"))) for one in arrays]


def _private(optimiser, sampler, noise_multiplier=1.0, noise=None):
    steps = {"clip_norm": 1.0, "num_steps": 2, "noise_multiplier": noise_multiplier}
    return jaxdp.PrivateOptimiser(optimiser, **steps, sampler=sampler, noise=noise)


def _network_with_a_loop():
    """A table, a layer at several positions, and a cell in a scan: covered and not."""
    keys = jr.split(jr.key(0), 3)
    table, layer = eqx.nn.Embedding(11, 4, key=keys[0]), eqx.nn.Linear(4, 6, key=keys[1])
    return table, layer, eqx.nn.GRUCell(6, 3, key=keys[2])


def _loss(model, words, target):
    table, layer, cell = model

    def logits(words):
        hidden = jnp.tanh(jax.vmap(lambda word: layer(table(word)))(words))
        return jax.lax.scan(lambda state, x: (cell(x, state), None), jnp.zeros(3), hidden)[0]

    return cross_entropy(logits, words, target)


def _largest_gap(found, expected):
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return max(float(np.max(np.abs(np.asarray(a) - np.asarray(b)))) for a, b in pairs)


def clipping():
    """Sum and norms on one device, sharded under jit, and under shard_map; in pieces too."""
    model = _network_with_a_loop()
    words = jr.randint(jr.key(1), (BATCH, 5), 0, 11)
    labels = jr.randint(jr.key(2), (BATCH,), 0, 3)
    arrays, static = eqx.partition(model, eqx.is_array)
    whole = jaxdp.clipped_gradient_sum(_loss, model, words, labels, clip_norm=0.1)
    mesh = _mesh()
    sharded = _on_all(mesh, words, labels)
    gaps = {}
    for name, size in (("sharded", None), ("sharded, in microbatches", 10)):

        @jax.jit
        def clipped(arrays, words, labels, size=size):
            model = eqx.combine(arrays, static)
            return jaxdp.clipped_gradient_sum(
                _loss, model, words, labels, clip_norm=0.1, microbatch_size=size
            )

        gaps[name] = _largest_gap(clipped(arrays, *sharded), whole)

    def local(arrays, words, labels):
        model = eqx.combine(arrays, static)
        total, norms = jaxdp.clipped_gradient_sum(_loss, model, words, labels, clip_norm=0.1)
        return jax.lax.psum(total, "batch"), norms

    specs = {"in_specs": (P(), P("batch"), P("batch")), "out_specs": (P(), P("batch"))}
    mapped = jax.jit(jax.shard_map(local, mesh=mesh, check_vma=False, **specs))
    gaps["shard_map"] = _largest_gap(mapped(arrays, *sharded), whole)
    try:
        jax.jit(jax.shard_map(local, mesh=mesh, **specs))(arrays, *sharded)
        checked = "answered"
    except ValueError as error:
        checked = str(error)
    return {"gaps": gaps, "checked": checked, "largest": _largest_gap(whole, (whole[0], 0))}


def sums_in_parts():
    """How far one record moves a sum that float32 would spoil, in each way to share it."""
    num_records, mesh = 8192, _mesh()
    # A large first record, then half units in the last place of the sum it makes.
    values = np.full((num_records, 1), -(2.0**-12), np.float32)
    values[: num_records // 2 + 1] = 1
    # Device by device, and spread over all of them.
    orders = {"in order": values, "spread": values.reshape(8, -1).T.reshape(-1, 1)}

    def total(inputs, mask, size):
        return clipped_gradient_sum_in_parts(
            lambda weight, x, y: weight @ x,
            jnp.ones(1),
            inputs,
            jnp.zeros(len(inputs)),
            clip_norm=1.0,
            mask=mask,
            microbatch_size=size,
        )[0]

    @partial(jax.shard_map, mesh=mesh, in_specs=P("batch"), out_specs=P(), check_vma=False)
    def mapped(inputs, mask):
        return sum_over_devices(total(inputs, mask, 1), "batch")

    ways = {
        "sharded": jax.jit(partial(total, size=None)),
        "sharded, in microbatches": jax.jit(partial(total, size=64)),
        "shard_map": jax.jit(mapped),
    }
    found = {}
    for order, inputs in orders.items():
        for way, function in ways.items():
            sums = []
            for mask in (np.ones(num_records, bool), np.arange(num_records) != 0):
                moved = function(*_on_all(mesh, inputs, mask))
                sums.append(float(moved.in_float64()[0]))
            found[f"{way}, {order}"] = {"moved": sums[0] - sums[1], "sum": sums[0]}
    return {"found": found, "sum": float(values.sum(dtype=np.float64))}


def explicit_axes():
    """What is given on a mesh of Explicit axes, with and without that mesh as the context's."""
    inputs, labels = jr.normal(jr.key(0), (BATCH, 5)), jr.normal(jr.key(1), (BATCH,))
    weight, key = jnp.ones(5), jr.key(5)
    optimiser, secret = (
        _private(optax.adam(0.1), jaxdp.privacy.PoissonSampler(BATCH, 0.5), 1e-3, noise)
        for noise in (None, jaxdp.privacy.SecretNoise(2**128 + 7))
    )
    baseline = jaxdp.algorithms.NonPrivateOptimiser(optax.sgd(0.1), 2)
    ridge = jaxdp.kernels.PrivateKernelRidge(
        jaxdp.kernels.Gaussian(0.5), num_projections=5, label_bound=9.0, input_bound=1.0
    )
    budget = {"epsilon": 1.0, "delta": 1e-5, "public_seed": 1, "noise_seed": 2**130}
    function = ridge.fit(inputs, labels, **budget)

    def clipped(x, y):
        return jaxdp.clipped_gradient_sum(loss, weight, x, y, clip_norm=0.5)

    def loss(weight, x, y):
        return (weight @ x - y) ** 2

    def convolved(kernel, x, y):
        return jnp.sum(jnp.tanh(jax.lax.conv(x[None], kernel, (1,), "SAME"))) * y

    def dropped(weight, x, y):
        return loss(weight, x[0] * jr.bernoulli(x[1], 0.5, (5,)), y)

    def features(inputs, labels):
        return jaxdp.FixedFeatures.from_arrays(inputs, labels, inputs, labels)

    def trained(optimiser, loss=loss):
        return lambda x, y: jaxdp.train(optimiser, loss, weight, x, y, key=key).model

    calls = {
        "sum": clipped,
        "compiled sum": jax.jit(clipped),
        "convolution": lambda x, y: jaxdp.clipped_gradient_sum(
            convolved, jnp.ones((2, 1, 3)), x[:, None], y, clip_norm=0.5
        ),
        "norms": lambda x, y: jaxdp.clipping.per_sample_gradient_norms(loss, weight, x, y),
        "step": lambda x, y: optimiser.step(loss, weight, optimiser.init(weight), x, y, key=key)[0],
        "train": trained(optimiser),
        "train with secret noise": trained(secret),
        "train without noise": trained(baseline),
        "train with dropout": lambda x, y: trained(baseline, dropped)(
            (x, jax.device_put(jr.split(jr.key(3), BATCH), y.sharding)), y
        ),
        "simulate": lambda x, y: jaxdp.simulate(features(x, y), optimiser, key=key).risk,
        "predict": lambda x, y: jaxdp.predict(features(x, y), optimiser).risk,
        "table": lambda x, y: jaxdp.LinearRegression.from_data(x, y).spectrum,
        "kernel": lambda x, y: function(x),
        "fit": lambda x, y: ridge.fit(x, y, **budget).coefficients,
    }
    explicit = jax.make_mesh((8,), ("batch",), axis_types=(AxisType.Explicit,))
    spread = _on_all(explicit, inputs, labels)
    found = {}
    for name, call in calls.items():
        alone = call(inputs, labels)
        found[name] = [_largest_gap(call(*spread), alone)]
        with jax.set_mesh(explicit):
            found[name].append(_largest_gap(call(*spread), alone))
        assert max(np.max(np.abs(leaf)) for leaf in jax.tree.leaves(alone)) > 0.01, name
    return found


def shared_batches():
    """Training whose batches eight devices share: how far its models are from one device's."""
    mesh = jax.make_mesh((8,), ("batch",))
    poisson, epochs = jaxdp.privacy.PoissonSampler(24, 0.4), ShuffledEpochs(24, 12)
    quiet = {"noise": jaxdp.privacy.SecretNoise(), "noise_multiplier": 1e-8}
    clip = jaxdp.algorithms.AdaptiveClip(0.5, count_noise=4.0)
    kinds = {
        "simulated": ({"sampler": poisson}, {}),
        "adaptive clip": ({"sampler": poisson, "clip_norm": clip}, {}),
        "microbatches": ({"sampler": poisson}, {"microbatch_size": 2}),
        "secret noise": ({"sampler": epochs, **quiet}, {}),
        "a memory map": ({"sampler": poisson}, {"inputs": INPUTS.view(np.memmap)}),
    }
    gaps = {}
    for name, (changes, options) in kinds.items():
        made = private_optimiser(inner=optax.sgd(0.1), **changes)
        models = [trained(made=made, mesh=on, **options).model for on in (None, mesh)]
        gaps[name] = _largest_gap(*models), _largest_gap(models[0], START)
    return gaps


def _predicted(key, peak, clip_scale):
    problem = jaxdp.LinearRegression.isotropic(40, label_noise=0.3)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Polynomial(peak, 0.5), clip_scale, 1.0, 200)
    return jaxdp.predict(problem, algorithm, records=5)


def _simulated(key, peak, clip_scale):
    problem = jaxdp.LinearRegression.isotropic(10, label_noise=0.3)
    algorithm = jaxdp.OnePassDPSGD(jaxdp.Constant(peak), clip_scale, 1.0, 30)
    reduced = jaxdp.Reduced()
    return jaxdp.simulate(problem, algorithm, key=key, num_runs=2, simulator=reduced, records=5)


def sweeps():
    """Sweeps of 15 cells, in shards that eight devices do not share evenly, and on one device."""
    axes = {"peak": np.linspace(0.5, 3.0, 5), "clip_scale": np.array([0.3, 1.0, 3.0])}
    found = {}
    for name, function in (("predicted", _predicted), ("simulated", _simulated)):
        given = {"key": jr.key(0), "shard_size": 11, "quiet": True}
        spread = jaxdp.sweep(function, axes, **given)
        with mock.patch.object(jax, "local_devices", return_value=jax.devices()[:1]):
            alone = jaxdp.sweep(function, axes, **given)
        gaps = np.abs(spread["risk"] - alone["risk"]) / alone["risk"]
        found[name] = {
            "devices": [spread.attrs["device"], alone.attrs["device"]],
            "gap": float(gaps.max()),
            "spread": float(alone["final_risk"].max() / alone["final_risk"].min()),
            "ended": int(np.sum(spread["status"].values == alone["status"].values)),
        }
    return found


if __name__ == "__main__":
    assert jax.device_count() == 8
    parts = clipping, sums_in_parts, explicit_axes, sweeps, shared_batches
    json.dump({part.__name__: part() for part in parts}, sys.stdout)

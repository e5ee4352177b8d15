"""A small network and its private training, which the tests of networks share."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import jaxdp

NUM_TRAIN, NUM_TEST = 300, 200


@functools.cache
def network(num_classes=2):
    """A problem of so many classes: logistic with two, softmax with more."""
    outputs, key = (1 if num_classes == 2 else num_classes), jax.random.key(0)
    model = eqx.nn.MLP(5, outputs, 32, 2, jnp.tanh, key=key)
    inputs = np.asarray(jax.random.normal(jax.random.key(1), (NUM_TRAIN + NUM_TEST, 5)))
    if num_classes == 2:
        labels, loss = np.sign(inputs[:, 0]), jaxdp.losses.Logistic()
    else:
        labels = (inputs[:, 0] > 0).astype(int) + (inputs[:, 1] > 0)
        loss = jaxdp.losses.Softmax(num_classes)
    rows = inputs[:NUM_TRAIN], labels[:NUM_TRAIN], inputs[NUM_TRAIN:], labels[NUM_TRAIN:]
    return jaxdp.Linearised(model, *rows, loss=loss)


def only(problem, chosen):
    """The problem with only the chosen weights trained, a function of the model as of `tree_at`."""
    nothing = jax.tree.map(lambda _: False, problem.model)
    return problem.replace(trainable=eqx.tree_at(chosen, nothing, replace_fn=lambda _: True))


def descent(rate, *, num_steps=40, clip_norm=1.0, optimiser=optax.sgd):
    """Stochastic gradient descent with Poisson batches of a fifth of the rows."""
    return jaxdp.PrivateOptimiser(
        optimiser,
        learning_rate=rate,
        clip_norm=clip_norm,
        noise_multiplier=1.0,
        num_steps=num_steps,
        sampler=jaxdp.privacy.PoissonSampler(NUM_TRAIN, 0.2),
    )

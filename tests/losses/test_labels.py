"""Which labels each loss takes, and what it says of others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp import losses

SOFTMAX = losses.Softmax(10)
REGRESSION = (losses.Squared(), losses.HalfSquared(), losses.Huber(1.0))
EVERY = (*REGRESSION, losses.Logistic(), SOFTMAX)
each_loss = pytest.mark.parametrize("loss", EVERY, ids=lambda loss: type(loss).__name__)


def test_labels_of_each_loss_pass():
    for loss in REGRESSION:
        loss.require_labels("labels", [0.5, -3.0, 7])
    losses.Logistic().require_labels("labels", np.asarray([1, -1, 1]))
    SOFTMAX.require_labels("labels", jnp.asarray([0.0, 9.0]))
    SOFTMAX.require_labels("labels", np.arange(10, dtype=np.uint8))


@pytest.mark.parametrize(
    ("loss", "labels", "message"),
    [
        (
            losses.Logistic(),
            [0, 1, 1],
            r"expected train_labels -1 or \+1 for the Logistic loss, got values 0.0, 1.0; "
            "of labels 0 and 1 give 2",
        ),
        (losses.Logistic(), [1, 2, 3, 4.5], r"Logistic loss, got values 1.0, 2.0, 3.0, \.\.\.$"),
        (
            SOFTMAX,
            [0, 12],
            r"expected train_labels to be whole numbers from 0 to 9 \(num_classes=10\), got 12$",
        ),
        (SOFTMAX, [0.5], "got 0.5$"),
        (SOFTMAX, [-1], "got -1$"),
    ],
)
def test_other_labels_are_refused(loss, labels, message):
    with pytest.raises(ValueError, match=message):
        loss.require_labels("train_labels", np.asarray(labels))


@each_loss
def test_labels_are_a_vector_of_finite_numbers(loss):
    with pytest.raises(ValueError, match=r"expected targets of shape \(any\), got \(3, 1\)"):
        loss.require_labels("targets", np.ones((3, 1)))
    with pytest.raises(ValueError, match="expected finite targets"):
        loss.require_labels("targets", np.asarray([1.0, np.nan]))
    with pytest.raises(TypeError, match="expected targets to be a real number"):
        loss.require_labels("targets", ["1", "-1"])
    # Nothing is known of traced ones.
    jax.eval_shape(lambda labels: loss.require_labels("targets", labels), jnp.full(3, 0.5))


def test_a_prediction_has_as_many_outputs_as_the_loss_says():
    assert SOFTMAX.num_outputs == 10
    assert all(loss.num_outputs is None for loss in EVERY[:-1])
    classifiers = [loss for loss in EVERY if isinstance(loss, losses.AbstractClassificationLoss)]
    assert [type(loss).__name__ for loss in classifiers] == ["Logistic", "Softmax"]

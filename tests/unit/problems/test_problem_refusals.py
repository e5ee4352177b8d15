"""Values that descriptions of problems refuse; kinds: tests/unit/test_wrong_calls.py.

Labels and features of rows that are missing or do not fit the loss: test_wrong_everyday.py.
Another refusal is one line of a table: what is changed in a call that is right, and what is said.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import jaxdp
from jaxdp.losses import Logistic, Squared
from jaxdp.problems import ReducedFeatures
from jaxdp.problems.rows.infinite_width import infinite_width_kernel

LINEAR, RANDOM = jaxdp.LinearRegression, jaxdp.RandomFeatures
TRAIN = {"train_inputs": np.ones((4, 3)), "train_labels": np.ones(4)}
TEST = {"test_inputs": np.ones((2, 3)), "test_labels": np.ones(2)}
FEATURES = {"train_features": np.ones((4, 3)), "test_features": np.ones((2, 3))}
LABELS = {"train_labels": np.ones(4), "test_labels": np.ones(2)}
FACTORS = {"train_factor": np.ones((4, 2)), "test_factor": np.ones((2, 2))}
# name: (what is called, arguments that are right)
CALLS = {
    "linear": (LINEAR, {"spectrum": [1.0, 1.0], "target": [1.0, 1.0], "label_noise": 0.1}),
    "isotropic": (LINEAR.isotropic, {"dim": 3, "label_noise": 0.1}),
    "power law": (LINEAR.power_law, {"dim": 3, "condition_number": 2.0, "label_noise": 0.1}),
    "scales": (jaxdp.InputScales, {"values": [0.5, 1.5], "weights": [0.5, 0.5]}),
    "logistic": (jaxdp.LogisticRegression, {"dim": 3, "signal": 1.0}),
    "random": (RANDOM.from_arrays, TRAIN | TEST | {"weights": np.ones((5, 3))}),
    "sampled": (
        RANDOM.sample,
        {"num_train": 4, "num_test": 3, "dim": 2, "num_features": 5, "key": jr.key(0)},
    ),
    "fixed": (jaxdp.FixedFeatures.from_arrays, FEATURES | LABELS),
    "factors": (ReducedFeatures, FACTORS | {"unseen_factor": np.ones((2, 1))} | LABELS),
    "kernel": (ReducedFeatures.from_kernel, {"kernel": np.eye(6)} | LABELS),
    "width": (infinite_width_kernel, {"activation": jnp.tanh, "inputs": np.eye(3)}),
}
NO_LOSS = r"expected loss to be one of jaxdp.losses such as Squared\(\), got "
NOT_COVERED = r"HalfSquared\(\) or jaxdp.losses.Huber\(width\), got"
REFUSED = [
    ("linear", {"spectrum": [2.0, 2.0]}, "mean 1"),
    ("linear", {"spectrum": [2.5, -0.5]}, "eigenvalues >= 0"),
    ("linear", {"target": [1.0]}, "one shape"),
    ("linear", {"target": [np.nan, 1.0]}, "finite target"),
    ("linear", {"label_noise": -0.1}, "label_noise >= 0, got -0.1"),
    ("linear", {"input_scales": [1.0]}, "input_scales to be jaxdp.InputScales or None, got list"),
    *(("linear", {"loss": loss}, NOT_COVERED) for loss in (Squared(), Logistic(), "huber", None)),
    ("isotropic", {"dim": 0}, "dim >= 1, got 0"),
    ("isotropic", {"initial_risk": 0.0}, "initial_risk > 0"),
    ("power law", {"condition_number": 0.5}, "condition_number >= 1, got 0.5"),
    ("scales", {"weights": [1.0]}, "one shape"),
    ("scales", {"values": [], "weights": []}, "one shape"),
    ("scales", {"values": [[1.0]], "weights": [[1.0]]}, "one shape"),
    ("scales", {"values": [0.0, 2.0]}, "values > 0 of the scale, got one of 0"),
    ("scales", {"values": [-1.0, 3.0]}, "values > 0 of the scale, got one of -1"),
    ("scales", {"values": [np.inf, 1.0], "weights": [0.0, 1.0]}, "finite values > 0"),
    ("scales", {"weights": [1.5, -0.5]}, "weights >= 0, got one of -0.5"),
    ("scales", {"weights": [0.5, np.nan]}, "weights >= 0, got one of nan"),
    ("scales", {"weights": [0.5, 0.4]}, "weights of sum 1, got 0.9"),
    ("scales", {"values": [1.0, 2.0]}, "mean 1.5; divide the values by it"),
    ("logistic", {"dim": 1}, "expected dim >= 2, got 1"),
    ("logistic", {"signal": 0.0}, r"expected finite signal > 0, got 0\.0"),
    ("logistic", {"signal": np.inf}, "expected finite signal > 0, got inf"),
    ("logistic", {"signal": [1.0, 2.0]}, "signal"),
    ("random", {"train_labels": np.ones(5)}, r"train_labels of shape \(4\), got \(5,\)"),
    ("random", {"test_inputs": np.ones((2, 4))}, r"test_inputs of shape \(any, 3\)"),
    ("random", {"weights": np.ones((5, 4))}, r"weights of shape \(any, 3\), got \(5, 4\)"),
    ("random", {"weights": np.ones((0, 3))}, "non-empty weights"),
    ("random", {"train_inputs": np.full((4, 3), np.inf)}, "finite train_inputs, got 12"),
    ("random", {"train_inputs": "table"}, "expected train_inputs to be a real number"),
    ("random", {"activation": "tanh"}, "activation to be a callable, got str: 'tanh'"),
    *(("sampled", {name: 0}, f"{name} >= 1") for name in ("num_train", "dim", "num_features")),
    ("fixed", {"test_features": np.zeros((2, 6))}, "test_features"),
    ("fixed", {"train_features": np.zeros(4)}, "train_features"),
    ("fixed", {"train_labels": np.ones(3)}, "train_labels"),
    *(
        ("fixed", {f"{part}_features": np.full((count, 3), np.nan)}, f"finite {part}_features, got")
        for part, count in (("train", 4), ("test", 2))
    ),
    ("fixed", {"test_labels": np.ones((2, 1))}, "test_labels"),
    *(("fixed", {"loss": loss}, NO_LOSS) for loss in (None, "logistic", Logistic, jnp.square)),
    *((name, {"loss": "logistic"}, NO_LOSS) for name in ("sampled", "kernel")),
    ("factors", {"train_factor": np.ones((3, 2))}, r"train_factor of shape \(4, any\), got \(3"),
    ("factors", {"test_factor": np.ones((2, 5))}, "one number of columns"),
    ("factors", {"unseen_factor": np.full((2, 1), np.nan)}, "finite unseen_factor, got 2 entries"),
    ("factors", {"train_labels": [], "train_factor": np.ones((0, 2))}, "one training row"),
    ("factors", {"train_labels": 1.0}, r"train_labels of shape \(any\), got \(\)"),
    ("kernel", {"kernel": np.eye(4)}, r"kernel of shape \(6, 6\)"),
    ("kernel", {"kernel": np.arange(36.0).reshape(6, 6)}, "symmetric kernel, got entries that"),
    ("kernel", {"kernel": np.diag([1.0] * 5 + [-1])}, "semi-definite kernel, got an eigenvalue -1"),
    *(("width", {"inputs": np.ones(shape)}, "shape") for shape in (3, (0, 3), (3, 0))),
    *(("width", {"inputs": np.array([[1, x]])}, "finite inputs") for x in (np.nan, np.inf)),
    ("width", {"activation": "tanh"}, "callable"),
    ("width", {"activation": jax.nn.softmax}, "elementwise"),
    ("width", {"activation": jnp.log}, "finite activation"),
    ("width", {"activation": lambda x: jnp.exp(x**2)}, "grows too fast"),
]


@pytest.mark.parametrize(("call", "changes", "message"), REFUSED)
def test_values_that_do_not_fit_are_refused(call, changes, message):
    function, good = CALLS[call]
    with pytest.raises((TypeError, ValueError), match=message):
        function(**good | changes)

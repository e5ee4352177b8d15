"""What the published algorithms refuse: by the argument's name, in one sentence."""

import numpy as np
import pytest

import jaxdp
from experiments.private_kernel_learning import published
from jaxdp import kernels, losses

GAUSSIAN, PRODUCT, LOGISTIC = kernels.Gaussian(0.75), kernels.InnerProduct(), losses.Logistic()
OF_A_KERNEL = {
    "Algorithm1": lambda kernel: published.Algorithm1(kernel, 4, 0.1, 1.0),
    "Algorithm2": lambda kernel: published.Algorithm2(kernel, 4, 0.1, LOGISTIC),
    "Algorithm3": lambda kernel: published.Algorithm3(kernel, 4, 0.1, 1.0),
    "Algorithm4": lambda kernel: published.Algorithm4(kernel, 4, 0.1, LOGISTIC),
    "Algorithm5": lambda kernel: published.Algorithm5(kernel, 0.1, LOGISTIC),
}
OF_A_LOSS = {
    "Algorithm2": lambda loss: published.Algorithm2(GAUSSIAN, 4, 0.1, loss),
    "Algorithm4": lambda loss: published.Algorithm4(GAUSSIAN, 4, 0.1, loss),
    "Algorithm5": lambda loss: published.Algorithm5(GAUSSIAN, 0.1, loss),
}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: published.Algorithm1(PRODUCT, 8, 0.1, 1.0), "input_bound"),
        (lambda: published.Algorithm2(GAUSSIAN, 0, 0.1, LOGISTIC), "num_projections >= 1"),
        (lambda: published.Algorithm3(GAUSSIAN, 8, 0.1, 0.0), "label_bound > 0"),
        (lambda: published.Algorithm5(GAUSSIAN, 0.0, LOGISTIC), "ridge > 0"),
        (lambda: published.HuberHinge(0.0), "width > 0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_argument_out_of_its_range_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", OF_A_KERNEL)
def test_what_is_no_kernel_is_refused(name):
    for wrong in (kernels.Gaussian, "rbf", None, 1.0):
        with pytest.raises(TypeError, match=r"expected (a )?kernel"):
            OF_A_KERNEL[name](wrong)


@pytest.mark.parametrize("name", OF_A_LOSS)
def test_what_is_no_margin_loss_is_refused(name):
    with pytest.raises(TypeError, match="margin loss"):
        OF_A_LOSS[name]("logistic")


def test_what_is_no_function_and_what_has_no_waves_is_refused():
    with pytest.raises(TypeError, match="eigenfunctions to be callable"):
        published.CanonicalEstimator("1", 3, 1.0, 1.0)
    budget = {"epsilon": 1.0, "delta": 1e-5, "public_seed": 0}
    with pytest.raises(jaxdp.NotCoveredError, match="InnerProduct is not"):
        published.Algorithm3(PRODUCT, 8, 0.1, 1.0).fit(np.eye(3), np.ones(3), **budget)

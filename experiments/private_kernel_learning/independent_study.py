"""An independent study of PK's synthetic experiment, as reference: mean test errors and errors.

Six repetitions, n = 1000 rows to train and to test on, inputs uniform on the cube, T = max|y|, the
least over 12 projection dimensions from 10 to 1000 and PK's 11 ridges. Written before this code.
"""

import xarray

from experiments import harness

_EPSILONS = [0.1, 10**-0.5, 1.0, 10**0.5, 10.0]
# d, learner: means, standard errors, by epsilon.
_ROWS = {
    (10, "RP, published"): ([2.29, 1.69, 1.075, 0.465, 0.137], [0.40, 0.29, 0.230, 0.094, 0.029]),
    (10, "RFF, published"): (
        [1.49, 0.910, 0.419, 0.181, 0.0668],
        [0.25, 0.169, 0.026, 0.025, 0.0063],
    ),
    (10, "RP, certified"): (
        [0.203, 0.130, 0.0804, 0.0353, 0.0171],
        [0.044, 0.021, 0.0129, 0.0043, 0.0015],
    ),
    (10, "RFF, certified"): (
        [0.156, 0.0917, 0.0616, 0.0328, 0.0172],
        [0.020, 0.0129, 0.0081, 0.0039, 0.0018],
    ),
    (20, "RP, published"): (
        [0.762, 0.648, 0.325, 0.216, 0.0805],
        [0.081, 0.078, 0.054, 0.019, 0.0043],
    ),
    (20, "RFF, published"): (
        [0.706, 0.449, 0.251, 0.128, 0.0594],
        [0.064, 0.073, 0.032, 0.011, 0.0031],
    ),
    (20, "RP, certified"): (
        [0.157, 0.0703, 0.0338, 0.0242, 0.0166],
        [0.006, 0.0043, 0.0018, 0.0011, 0.0006],
    ),
    (20, "RFF, certified"): (
        [0.162, 0.0729, 0.0337, 0.0248, 0.0172],
        [0.009, 0.0027, 0.0017, 0.0009, 0.0003],
    ),
    (30, "RP, published"): (
        [0.270, 0.253, 0.177, 0.118, 0.0518],
        [0.031, 0.036, 0.024, 0.017, 0.0077],
    ),
    (30, "RFF, published"): (
        [0.252, 0.197, 0.128, 0.0801, 0.0398],
        [0.033, 0.029, 0.017, 0.0102, 0.0047],
    ),
    (30, "RP, certified"): (
        [0.0948, 0.0476, 0.0261, 0.0151, 0.0125],
        [0.0109, 0.0059, 0.0033, 0.0016, 0.0013],
    ),
    (30, "RFF, certified"): (
        [0.109, 0.0474, 0.0289, 0.0147, 0.0120],
        [0.011, 0.0053, 0.0032, 0.0013, 0.0010],
    ),
}
NUM_TRAIN = 1000


def independent_study() -> xarray.Dataset:
    """Their `mean` and `standard_error` by dim, learner and epsilon."""
    dims = list(dict.fromkeys(dim for dim, _ in _ROWS))
    learners = list(dict.fromkeys(learner for _, learner in _ROWS))
    axes = {"dim": dims, "learner": learners, "epsilon": _EPSILONS}

    def values(part: int):
        return [[_ROWS[dim, learner][part] for learner in learners] for dim in dims]

    return harness.dataset(axes, {tuple(axes): {"mean": values(0), "standard_error": values(1)}})

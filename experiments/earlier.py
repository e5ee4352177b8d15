"""Saved results that are of earlier code, and why they were not run again.

By name: the commit that the saved result names, and the reason. `python -m experiments.report
--check` accepts a stale result that stands here, and refuses a line whose result was run again or
is not stale. The report's page shows "from earlier code" beside them.
"""

EARLIER: dict[str, tuple[str, str]] = {
    "fig01_mnist_width": (
        "74c8c9253601-dirty",
        "made from a modified tree; to be run again, which takes 28 min",
    ),
    "fig01_synthetic": (
        "e74b142ea364-dirty",
        "made from a modified tree; to be run again, which takes 6 min",
    ),
    "fig02_projection_dimension": (
        "e74b142ea364-dirty",
        "made from a modified tree; to be drawn again with the runs that it draws",
    ),
    "fig03_year_prediction": (
        "6f99c8d565b1",
        "of a committed tree, before an intercept was tried without privacy; to be run again",
    ),
    "fig08_year_projection_dimension": (
        "6f99c8d565b1",
        "drawn of fig03_year_prediction's runs; to be drawn again with them",
    ),
}

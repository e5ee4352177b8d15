"""The picture of an additive model."""

import numpy as np
import pytest

import jaxdp
from jaxdp.regression import Columns


def _fitted(classes):
    draw = np.random.default_rng(0)
    numbers, kinds = draw.uniform(0, 10, 2000), draw.integers(0, 3, 2000)
    columns = Columns({"age": (0, 10), "kind": ["a", "b", "c"]}, bins=4)
    table = [[number, "abc"[kind]] for number, kind in zip(numbers, kinds, strict=True)]
    estimator = jaxdp.estimators.DPLogisticRegression(
        4.0, 1e-6, columns=columns, features="additive", classes=classes
    )
    return estimator.fit(table, np.where(numbers > 5, classes[-1], classes[0]))


@pytest.mark.parametrize("classes", [(0, 1), (0, 1, 2)])
def test_each_column_has_its_part_and_its_band(classes):
    model = _fitted(classes)
    figure = jaxdp.plots.plot_parts(model, place=len(classes) - 1)
    age, kind = figure.axes
    assert [age.get_title(), kind.get_title()] == ["age", "kind"]
    found = np.asarray(model.release_.coefficients)
    found = found if found.ndim == 1 else found[:, -1]
    values, edges, _ = age.patches[1].get_data()
    np.testing.assert_allclose(values, found[:4] - found[:4].mean(), rtol=1e-6)
    np.testing.assert_allclose(edges, [0, 2.5, 5, 7.5, 10])
    upper, _, lower = age.patches[0].get_data()
    np.testing.assert_allclose(upper - lower, 4 * model.noise_std_[:4], rtol=1e-6)
    assert values[-1] > values[0]
    assert [label.get_text() for label in kind.get_xticklabels()] == ["a", "b", "c"]


def test_other_models_have_no_parts():
    with pytest.raises(TypeError, match='features="additive", got str'):
        jaxdp.plots.plot_parts("model")
    line = jaxdp.estimators.DPLinearRegression(4.0, 1e-6, input_range=(0, 1), label_range=(0, 1))
    with pytest.raises(TypeError, match="got DPLinearRegression"):
        jaxdp.plots.plot_parts(line.fit(np.eye(4), np.ones(4)))


def test_bands_are_what_the_noise_makes_of_coefficients():
    fits = [_fitted((0, 1)) for _ in range(16)]
    spread = np.std([fit.release_.coefficients for fit in fits], axis=0)
    ratio = spread / np.mean([fit.noise_std_ for fit in fits], axis=0)
    # The noise of the coordinates, which shrinks coefficients, is not in it.
    assert 0.7 < np.median(ratio) < 2.5

"""The picture of an additive model."""

import numpy as np
import pandas as pd
import pytest

import jaxdp
from jaxdp.regression import ColumnFeatures, Columns, PrivateLinearRegression


def _model(budget, columns, **changes):
    given = {"columns": columns, "features": "additive", "label_range": (0, 1)} | changes
    return jaxdp.estimators.DPLinearRegression(budget, 1e-6, **given)


def _fitted(classes):
    draw = np.random.default_rng(0)
    numbers, kinds = draw.uniform(0, 10, 2000), draw.integers(0, 3, 2000)
    columns = Columns({"age": (0, 10), "kind": ["a", "b", "c"]}, bins=4)
    table = [[number, "abc"[kind]] for number, kind in zip(numbers, kinds, strict=True)]
    given = {"columns": columns, "features": "additive", "classes": classes}
    estimator = jaxdp.estimators.DPLogisticRegression(4.0, 1e-6, **given)
    return estimator.fit(table, np.where(numbers > 5, classes[-1], classes[0]))


@pytest.mark.parametrize("classes", [(0, 1), (0, 1, 2)])
def test_each_column_has_its_part_and_its_band(classes):
    model = _fitted(classes)
    figure = jaxdp.plots.plot_parts(model, place=2 if len(classes) > 2 else 0)
    age, kind = figure.axes
    assert [age.get_title(), kind.get_title()] == ["age", "kind"]
    found = np.asarray(model.release_.coefficients)
    found = found if found.ndim == 1 else found[:, -1]
    knots, values = age.lines[0].get_data()
    np.testing.assert_allclose(values, found[:4], rtol=1e-6)
    np.testing.assert_allclose(knots, [0, 10 / 3, 20 / 3, 10])
    # The outline of the band: at each knot once below the curve and once above it.
    outline = age.collections[0].get_paths()[0].vertices
    ends = np.array([np.unique(outline[outline[:, 0] == knot, 1])[[0, -1]] for knot in knots])
    np.testing.assert_allclose(ends.mean(axis=1), values, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.ptp(ends, axis=1), 4 * model.noise_std_[:4], rtol=1e-5)
    assert values[-1] > values[0]
    assert [label.get_text() for label in kind.get_xticklabels()] == ["a", "b", "c"]
    assert age.get_ylabel() == f"added to the logit of {classes[-1]}"
    assert [text.get_text() for text in age.get_legend().get_texts()] == [
        "noise, 2 std",
        "part",
        "part, noise, 2 std",
    ]
    assert age.get_ylim() == kind.get_ylim()


def test_a_saved_model_of_many_categories_has_its_curves_and_names_some(tmp_path):
    draw = np.random.default_rng(0)
    kinds = [f"kind {place}" for place in range(30)]
    frame = pd.DataFrame({"kind": draw.choice(kinds, 3000)})
    labels, columns = pd.Series(draw.uniform(size=3000), name="price"), Columns({"kind": kinds})
    model = _model(4.0, columns).fit(frame, labels)
    model.release_.save(tmp_path / "model.npz")
    for known in (model, jaxdp.regression.load(tmp_path / "model.npz")):
        (panel,) = jaxdp.plots.plot_parts(known).axes
        assert [label.get_text() for label in panel.get_xticklabels()] == kinds[::3]
        assert panel.get_ylabel() == "added to price"
        assert "noise" in panel.get_legend().get_texts()[0].get_text()
    learner = PrivateLinearRegression(ColumnFeatures(columns, is_additive=True), (0.0, 1.0))
    fit = learner.fit(frame, labels.to_numpy(), epsilon=4.0, delta=1e-6)
    # What the noise makes of them is not in the release of a learner.
    (shown,) = jaxdp.plots.plot_parts(fit.release).axes[0].get_legend().get_texts()
    assert shown.get_text() == "part"


def test_dates_are_shown_as_dates():
    days = np.arange("2000-01-01", "2010-01-01", dtype="datetime64[D]").astype(str)
    columns = Columns({"seen": ("2000-01-01", "2010-01-01")})
    model = _model(4.0, columns).fit(pd.DataFrame({"seen": days}), np.linspace(0, 1, len(days)))
    figure = jaxdp.plots.plot_parts(model)
    figure.canvas.draw()
    assert {"2000", "2004", "2008"} <= {
        label.get_text() for label in figure.axes[0].get_xticklabels()
    }


def test_other_models_have_no_parts():
    line = _model(4.0, None, input_range=(0, 1), features="linear")
    line.fit(np.eye(4).repeat(50, axis=0), np.ones(200))
    for model in (line, line.release_, "model"):
        message = f'features="additive" or a file of one, got {type(model).__name__}'
        with pytest.raises(TypeError, match=message):
            jaxdp.plots.plot_parts(model)


def test_parts_that_are_not_there_are_refused():
    model = _fitted((0, 1, 2))
    for place, kind in ((3, ValueError), (-1, ValueError), (0.5, TypeError)):
        with pytest.raises(kind, match="place"):
            jaxdp.plots.plot_parts(model, place=place)
    columns = Columns({"a": (0, 1), "b": (0, 1)}, bins=2, interactions=[("a", "b")])
    both = _model(1000.0, columns).fit(np.eye(2).repeat(50, axis=0), np.ones(100))
    with pytest.raises(ValueError, match="without interactions"):
        jaxdp.plots.plot_parts(both)


@pytest.mark.slow
@pytest.mark.parametrize("is_sure", [True, False])
def test_bands_of_logits_are_near_what_the_noise_makes_of_coefficients(is_sure):
    draw = np.random.default_rng(0)
    inputs = draw.uniform(-1, 1, (4000, 6))
    logits = inputs @ draw.normal(size=6)
    labels = (logits > 0 if is_sure else draw.random(4000) < 1 / (1 + np.exp(-logits))) * 1
    fits = [
        jaxdp.estimators.DPLogisticRegression(
            1.0, 1e-6, input_range=(-1, 1), classes=(0, 1), noise_seed=2**200 + seed
        ).fit(inputs, labels)
        for seed in range(30)
    ]
    spread = np.std([fit.release_.coefficients for fit in fits], axis=0, ddof=1)
    ratio = np.sqrt(np.mean((spread / np.mean([fit.noise_std_ for fit in fits], axis=0)) ** 2))
    # Three standard errors, of about thirty numbers for each of seven weights, and a few percent
    # for a curvature that is itself released.
    error = 3 / np.sqrt(2 * 29 * 7)
    assert abs(ratio - 1) < error + 0.05
    # Deviations too small by the root of two are found.
    assert abs(ratio * np.sqrt(2) - 1) > error + 0.05

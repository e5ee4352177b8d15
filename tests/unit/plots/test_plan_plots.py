"""The picture of a plan draws what the plan holds, and reads well at its extremes."""

import dataclasses

import numpy as np

import jaxdp
from jaxdp.planning.streams.one_pass_plan import OnePassPlan, Sensitivity
from jaxdp.plots import plot_plan

TIME = np.linspace(0, 1, 5, dtype=np.float32)
PREDICTED = jaxdp.Trajectory(
    TIME, np.array([0.5, 0.2, 0.1, 0.06, 0.04], np.float32), np.float32(0.05), np.array(0), {}
)


def _plan(schedule=None, floor=0.01, sensitivities=None):
    schedule = jaxdp.Polynomial(6.0, 0.5) if schedule is None else schedule
    algorithm = jaxdp.OnePassDPSGD(schedule, 0.3, 1.0, 1000)
    usual = {"clip_scale": Sensitivity(5.0, 0.6), "exchange": Sensitivity(0.1, 0.2)}
    told = {"floor": floor, "sensitivities": sensitivities or usual, "assumptions": ()}
    return OnePassPlan(algorithm=algorithm, predicted=PREDICTED, **told, status=jaxdp.Status.OK)


def _labels(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_the_three_panels_are_the_plan(tmp_path):
    band = dataclasses.replace(PREDICTED, std=0.1 * PREDICTED.risk)
    figure = plot_plan(_plan(), band, title="a title")
    figure.savefig(tmp_path / "picture.png")
    rate, risk, sensitivity = figure.axes
    time, values = (np.asarray(each) for each in rate.lines[0].get_data())
    np.testing.assert_allclose(values, 6 * np.sqrt(1 - time), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(risk.lines[0].get_ydata(), PREDICTED.risk, rtol=1e-6)
    expected = ["predicted", "± one run's deviation", "released", "best without privacy"]
    assert _labels(risk) == expected
    widths = [bar.get_x() + bar.get_width() for bar in sensitivity.patches]
    np.testing.assert_allclose(sorted(widths), [1.1, 1.2, 1.6, 6.0])


def test_a_floor_far_below_is_named_and_not_drawn():
    _, risk, _ = plot_plan(_plan(floor=1e-40)).axes
    assert _labels(risk)[-1] == "without privacy 1e-40"
    assert risk.get_ylim()[0] > 1e-3

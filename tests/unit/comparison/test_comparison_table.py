"""The table fits a terminal, shows coinciding predictions once, and stands in a notebook."""

import dataclasses
import re
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.comparison.coinciding import coincidences, coinciding, distinct
from jaxdp.comparison.table import WIDTH

TIME = np.array([0.0, 0.5, 1.0], np.float32)


def _trajectory(risk, label, **more):
    risk = np.asarray(risk, np.float32)
    status = np.zeros(risk.shape[:-1], np.int32)
    return jaxdp.Trajectory(TIME, risk, risk[..., -1], status, {}, label=label, **more)


RUNS = _trajectory([[1.0, 0.4, 0.2], [1.0, 0.6, 0.4]], "simulated")
ODE = _trajectory([1.0, 0.5, 0.25], "ODE")
SAME = [_trajectory([1.0, 0.5, 0.25 * (1 + 2e-5)], f"{kind} bound") for kind in ("lower", "upper")]
OTHER = [_trajectory([1.0, 0.5, 0.1 * k], f"theory of number {k}") for k in range(3, 9)]


def test_no_line_is_wider_than_a_terminal_whatever_is_compared():
    spreading = dataclasses.replace(ODE, std=jnp.asarray([0.0, 0.1, 0.1]))
    for predictions in ([ODE], [spreading, *SAME], [spreading, *OTHER]):
        lines = str(jaxdp.compare(RUNS, *predictions)).splitlines()
        assert max(map(len, lines)) <= WIDTH


def test_what_has_no_room_goes_to_a_block_that_names_its_rows_again():
    lines = str(jaxdp.compare(RUNS, ODE, *OTHER)).splitlines()
    heads = [place for place, line in enumerate(lines) if line.lstrip().startswith("time ")]
    assert len(heads) == 2
    second = lines[heads[1] :]
    assert second[2].split()[0] == "0.000"
    assert second[5].split()[0] == "final"
    # Of the last theory, and the gap of the first.
    found = "\n".join(lines)
    assert re.search(r"^final .*0\.80000", found, re.MULTILINE)
    assert re.search(r"^final .*0\.05000 +0\.5$", found, re.MULTILINE)


def test_predictions_that_coincide_are_one_column_and_it_is_said():
    comparison = jaxdp.compare(RUNS, ODE, *SAME, OTHER[0])
    text = str(comparison)
    assert "lower" not in text.splitlines()[0]
    assert "lower bound and upper bound agree with ODE to 2e-05 of the risk" in text
    assert len(comparison.predictions) == 4
    assert distinct([ODE, *SAME, OTHER[0]]) == [ODE, OTHER[0]]
    assert coinciding([ODE, OTHER[0]]) == []
    assert coincidences([ODE, SAME[0]])[0].startswith("lower bound agrees with ODE")


def test_a_prediction_that_differs_or_predicts_a_spread_is_shown():
    off = _trajectory([1.0, 0.5 * (1 + 3e-4), 0.25], "off")
    assert distinct([ODE, off]) == [ODE, off]
    spreading = dataclasses.replace(SAME[0], std=jnp.asarray([0.0, 0.1, 0.1]))
    assert distinct([ODE, spreading]) == [ODE, spreading]
    released = dataclasses.replace(SAME[0], final_risk=jnp.asarray(0.3))
    assert distinct([ODE, released]) == [ODE, released]


def test_a_notebook_shows_the_table_and_the_picture():
    risky = _trajectory([1.0, 0.5, 0.3], "<script>")
    shown = jaxdp.compare(RUNS, ODE, risky)._repr_html_()
    assert "<script>" not in shown
    assert "<th>&lt;script&gt;</th>" in shown
    assert '<img alt="risk over time" src="data:image/png;base64,iVBOR' in shown
    assert shown.count("<tr>") == 5


def test_without_matplotlib_a_notebook_shows_the_table_and_what_is_missing(monkeypatch):
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    shown = jaxdp.compare(RUNS, ODE)._repr_html_()
    assert "<table>" in shown
    assert "matplotlib (the extra &#x27;plots&#x27;)" in shown


def test_the_picture_has_one_curve_for_coinciding_predictions_and_styles_that_differ():
    above, _ = jaxdp.compare(RUNS, ODE, *SAME, *OTHER).plot(title="a title").axes
    lines = [line for line in above.lines if not line.get_label().startswith("_")]
    styles = [(line.get_color(), str(line.get_linestyle())) for line in lines]
    labels = [line.get_label() for line in lines]
    assert any(
        label.replace("\xa0", " ").split("\n")[0].startswith("ODE = lower") for label in labels
    )
    # The simulation, the first prediction with its bounds, and six more.
    assert len(lines) == 8
    assert len({color for color, _ in styles}) == 8
    assert len({_dashes(line) for line in lines[1:]}) == 7
    first = next(line for line in lines if line.get_label().startswith("ODE"))
    assert all(first.get_zorder() > line.get_zorder() for line in lines if line is not first)
    assert above.get_title() == "a title"


def _dashes(line):
    return str(line._unscaled_dash_pattern)


@pytest.mark.parametrize("scale", [0.0, 1e-9])
def test_risks_of_any_size_are_compared(scale):
    small = dataclasses.replace(ODE, risk=ODE.risk * scale, final_risk=ODE.final_risk * scale)
    assert len(distinct([small, ODE])) == 2
    assert len(distinct([small, small])) == 1

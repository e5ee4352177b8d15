"""The table fits a terminal, shows coinciding predictions once, and stands in a notebook."""

import dataclasses

import jax.numpy as jnp
import numpy as np

import jaxdp
from jaxdp.comparison.table import WIDTH, coincidences, coinciding

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


def test_predictions_that_coincide_are_one_column_and_it_is_said():
    comparison = jaxdp.compare(RUNS, ODE, *SAME, OTHER[0])
    text = str(comparison)
    assert "lower" not in text.splitlines()[0]
    assert "lower bound and upper bound agree with ODE to 2e-05 of the risk" in text
    assert len(comparison.predictions) == 4
    assert coinciding([ODE, *SAME, OTHER[0]]) == [(ODE, SAME), (OTHER[0], [])]
    assert coincidences([ODE, SAME[0]])[0].startswith("lower bound agrees with ODE")


def test_a_prediction_that_differs_or_predicts_a_spread_is_shown():
    off = _trajectory([1.0, 0.5 * (1 + 3e-4), 0.25], "off")
    assert coinciding([ODE, off]) == [(ODE, []), (off, [])]
    spreading = dataclasses.replace(SAME[0], std=jnp.asarray([0.0, 0.1, 0.1]))
    assert coinciding([ODE, spreading]) == [(ODE, []), (spreading, [])]
    released = dataclasses.replace(SAME[0], final_risk=jnp.asarray(0.3))
    assert coinciding([ODE, released]) == [(ODE, []), (released, [])]


def test_a_notebook_shows_the_table_and_the_picture():
    risky = _trajectory([1.0, 0.5, 0.3], "<script>")
    shown = jaxdp.compare(RUNS, ODE, risky)._repr_html_()
    assert "<script>" not in shown
    assert "<th>&lt;script&gt;</th>" in shown
    assert '<img alt="risk over time" src="data:image/png;base64,iVBOR' in shown
    assert shown.count("<tr>") == 5

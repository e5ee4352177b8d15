"""Settings take what is in their range, whatever kind of value a browser sends."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxdp.explorer.studies.base import Choice, Number, is_shown
from jaxdp.explorer.studies.linear_stream import LinearStream
from jaxdp.explorer.studies.synthetic_rows import SyntheticRows

_CLIP = Number("clip_scale", "c, clip norm", 1e-3, 100.0, 1.0, "Algorithm", is_log=True)
_COUNT = Number("dim", "d, inputs", 2, 2000, 200, "Problem", is_log=True, is_whole=True)
_KIND = Choice("schedule", "Schedule", {"constant": "flat", "hyperbolic": "h"}, "constant", "Rate")
_STUDIES = LinearStream(), SyntheticRows()
_ANYTHING = st.one_of(
    st.floats(),
    st.integers(),
    st.text("0123456789.-einf ", max_size=8),
    st.none(),
    st.booleans(),
    st.lists(st.none()),
)


def _answer(read, value):
    """What is taken, or why it is not."""
    try:
        return read(value), ""
    except ValueError as error:
        return None, str(error)


@settings(max_examples=60)
@given(_ANYTHING)
def test_what_is_taken_lies_in_the_range(value):
    for field in (_CLIP, _COUNT):
        found, message = _answer(field.checked, value)
        if message:
            assert field.label in message
            assert len(message) < 200
            continue
        assert field.low <= found <= field.high
        assert isinstance(found, int if field.is_whole else float)


@pytest.mark.parametrize("value", [-1, 0, 1e9, "1e400", math.nan, math.inf, True, None, "c", [1.0]])
def test_bad_values_are_refused_and_named(value):
    with pytest.raises(ValueError, match=r"c, clip norm to be a number from 0\.001 to 100, got"):
        _CLIP.checked(value)


def test_text_is_read_and_counts_are_whole():
    assert _CLIP.checked(" 2.5 ") == 2.5
    assert _COUNT.checked("300") == 300
    with pytest.raises(ValueError, match=r"whole number from 2 to 2000, got 2\.5"):
        _COUNT.checked(2.5)


def test_a_choice_is_one_of_its_options():
    assert _KIND.checked("hyperbolic") == "hyperbolic"
    for value in ("flat", "", None, ["constant"], "__import__('os')"):
        with pytest.raises(ValueError, match="Schedule to be one of constant, hyperbolic"):
            _KIND.checked(value)


def test_a_setting_is_there_where_its_choice_asks_for_it():
    knee = Number("knee", "knee", 0, 1, 0, "Rate", shown=("schedule", ("hyperbolic",)))
    assert is_shown(knee, {"schedule": "hyperbolic"})
    assert not is_shown(knee, {"schedule": "constant"})
    assert is_shown(_CLIP, {"schedule": "constant"})


def test_settings_that_do_not_go_together_are_refused():
    stream, rows = _STUDIES
    with pytest.raises(ValueError, match="a plan first"):
        stream.changed(stream.start(), schedule="optimal")
    with pytest.raises(ValueError, match="with Adam"):
        rows.changed(rows.start(), optimiser="adam", num_features=200)
    with pytest.raises(ValueError, match="at least one row"):
        rows.changed(rows.start(), num_rows=20, sampling_rate=0.01)

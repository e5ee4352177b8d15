"""Settings take what is in their range, whatever kind of value a browser sends."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxdp.explorer.fields import Choice, Number, read

_CLIP = Number("clip_scale", "c, clip norm", 1e-3, 100.0, 1.0, "Algorithm", is_log=True)
_COUNT = Number("dim", "d, inputs", 2, 2000, 200, "Problem", is_log=True, is_whole=True)
_KIND = Choice("schedule", "Schedule", {"constant": "flat", "hyperbolic": "h"}, "constant", "Rate")
_ANYTHING = st.one_of(
    st.floats(),
    st.integers(),
    st.text("0123456789.-einf ", max_size=8),
    st.none(),
    st.booleans(),
    st.lists(st.none()),
)


def _answer(field, value) -> tuple[Any, str]:
    """The number that is taken, or why none is."""
    try:
        return field.checked(value), ""
    except ValueError as error:
        return None, str(error)


@settings(max_examples=60)
@given(_ANYTHING)
def test_what_is_taken_lies_in_the_range(value):
    for field in (_CLIP, _COUNT):
        found, message = _answer(field, value)
        if message:
            assert field.label in message
            assert len(message) < 200
        else:
            assert field.low <= found <= field.high
            assert isinstance(found, int if field.is_whole else float)


@pytest.mark.parametrize("value", [-1, 10**400, None])
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


def test_a_setting_that_is_not_there_is_not_asked():
    knee = Number("knee", "knee", 0, 1, 0, "Rate", shown=("schedule", ("hyperbolic",)))
    hidden = {"schedule": "constant", "knee": "nothing", "more": 3}
    assert read((_KIND, knee), hidden) == {"schedule": "constant", "knee": 0}
    with pytest.raises(ValueError, match="knee to be a number"):
        read((_KIND, knee), hidden | {"schedule": "hyperbolic"})

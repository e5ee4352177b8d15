"""The page of statements: what names them, that none is misnamed, and that none is missing."""

import citations
import coverage_page
import pytest

LISTED = {
    "PF": {
        "title": "A paper",
        "equations": "(4.1) to (4.3)",
        "statements": {"Lemma B.1, (4.3)": "a bound", "Theorem 2": "a law", "Figure 1": "a curve"},
        "reasons": {"Figure 1": "no data"},
        "partly": {},
    }
}
HERE = citations.Place("jaxdp/core/keys.py", "jaxdp.core.keys.purpose_key")
THERE = citations.Place("tests/unit/core/test_keys.py", "test_keys_differ")
RUN = citations.Place("experiments/report.py", "report")
STATED = citations.Place("experiments/statements/paper/rates.py", "rates.minimax_rate")
JUDGED = citations.Place("experiments/statements/judged/tails.py", "tails.norms")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PF Lemma B.1, (4.3). And Lemma 7.", ["PF Lemma B.1", "PF (4.3)"]),
        ("AC Theorem 6/20, (100)", ["AC Theorem 6", "AC Theorem 20", "AC (100)"]),
        ("PK Lemmas 13 and 14; DR (6), (7)", ["PK Lemma 13", "PK Lemma 14", "DR (6)", "DR (7)"]),
        ("PK Theorems 17-19.", ["PK Theorem 17", "PK Theorem 18", "PK Theorem 19"]),
        ("AC (5) = (42), (18) to (20)", ["AC (5)", "AC (42)", "AC (18)", "AC (19)", "AC (20)"]),
        ("DR Lemmas B.2 to\nB.3, so", ["DR Lemma B.2", "DR Lemma B.3"]),
        ("Higham (2002), (3.1)", []),
        ("AC Proposition 10 (Bun and Steinke 2016, Lemma 3)", ["AC Proposition 10"]),
        ("Bun et al. (2016); PK Lemma 7", ["PK Lemma 7"]),
        ("PK Lemma 12; Massart (2013), Theorem 5.8", ["PK Lemma 12"]),
        ("AC (62), $D_i(0)$ and eta~(1)", ["AC (62)"]),
        ("PF Section 4, the kernel", []),
        ("PK Appendix G", ["PK Appendix G"]),
    ],
)
def test_a_source_names_its_statements(text, expected):
    assert [" ".join(pair) for pair in citations.named(text)] == expected


def test_sources_stand_in_docstrings_and_comments():
    text = '''
"""A module. Source: PF (1)."""

# Source: PF (2).
@decorated
def test_first():
    """One.

    Source: PF
    Lemma 3.
    """
    def inner():
        """Source: PF (4)."""
    x = 1  # Source: PF (5).
    return 0

class Second:
    def method(self):
        """Source: PF (7)."""

# Source: PF (8).
'''
    found = {item: place.name for (_, item), place in citations.in_file("tests/a/test_b.py", text)}
    assert found == {
        "(1)": "test_b",
        "(2)": "test_first",
        "Lemma 3": "test_first",
        "(4)": "test_first",
        "(5)": "test_first",
        "(7)": "test_b.Second.method",
        "(8)": "test_b",
    }
    names = {item: place.name for (_, item), place in citations.in_file("jaxdp/a/b.py", text)}
    assert (names["(1)"], names["(7)"]) == ("jaxdp.a.b", "jaxdp.a.b.Second.method")


@pytest.mark.parametrize("text", ["AC (5) to (3)", "PF (B.1) to (C.2)"])
def test_a_range_that_is_none_is_an_error(text):
    with pytest.raises(ValueError, match="expected a range"):
        citations.named(text)


def _states(cited, data):
    """The rows of the only paper."""
    ((rows, _),) = coverage_page.papers(cited, data).values()
    return [row.state for row in rows]


def test_states_are_what_the_places_are():
    cited = {("PF", "(4.3)"): [HERE], ("PF", "Lemma B.1"): [THERE]}
    assert _states(cited, LISTED) == ["held", "missing", "reason"]
    text = coverage_page.page(cited, LISTED)
    assert (
        "| Lemma B.1, (4.3) | a bound | [`jaxdp.core.keys.purpose_key`](../../jaxdp/core/keys.py), "
        "[test_keys_differ](../../tests/unit/core/test_keys.py) | held |" in text
    )
    assert "| Figure 1 | a curve | no data | reason |" in text
    states = ((HERE, "function"), (STATED, "function"), (RUN, "experiment"), (THERE, "held"))
    states += ((JUDGED, "held"),)
    for place, state in states:
        assert _states({("PF", "Theorem 2"): [HERE, place]}, LISTED)[1] == state


def test_what_a_test_leaves_out_makes_a_statement_held_in_part():
    listed = LISTED["PF"]
    data = {"PF": listed | {"partly": {"Theorem 2": "one side"}}}
    text = coverage_page.page({("PF", "Theorem 2"): [THERE]}, data)
    assert "| partly: one side |" in text
    with pytest.raises(ValueError, match="PF Theorem 2 is held in part, and no test names it"):
        coverage_page.papers({("PF", "Theorem 2"): [HERE, RUN]}, data)
    # Equations that stand alone have to be named one and all; a lemma's name stands for its own.
    rows = {"(4.1), (4.2)": "a law", "Lemma 1, (4.3)": "a"}
    data = {"PF": listed | {"statements": rows, "reasons": {}}}
    cited = {("PF", "(4.1)"): [THERE], ("PF", "(4.2)"): [HERE], ("PF", "Lemma 1"): [THERE]}
    assert _states(cited, data) == ["partly", "held"]
    assert "| partly: (4.1) alone |" in coverage_page.page(cited, data)


@pytest.mark.parametrize(
    ("cited", "message"),
    [
        ({("PF", "Lemma B.7"): [HERE]}, "no list has PF Lemma B.7, named at jaxdp/core/keys.py"),
        ({("PF", "(4.4)"): [THERE]}, "no list has"),
        ({("PK", "Lemma B.1"): [THERE]}, "no list has"),
        ({("PF", "Figure 1"): [HERE]}, "PF Figure 1 has a reason, and is computed by"),
    ],
)
def test_a_mistyped_number_and_an_idle_reason_are_errors(cited, message):
    with pytest.raises(ValueError, match=message):
        coverage_page.papers(cited, LISTED)


def test_no_statement_is_missing_or_misnamed():
    assert "| held |" in coverage_page.current()

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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PF Lemma B.1, (4.3). And Lemma 7.", ["PF Lemma B.1", "PF (4.3)"]),
        ("PK Lemmas 13 and 14; DR (6), (7)", ["PK Lemma 13", "PK Lemma 14", "DR (6)", "DR (7)"]),
        ("AC (5) = (42), (18) to (20)", ["AC (5)", "AC (42)", "AC (18)", "AC (19)", "AC (20)"]),
        ("DR Lemmas B.2 to\nB.3, so", ["DR Lemma B.2", "DR Lemma B.3"]),
        ("AC Proposition 10 (Bun and Steinke 2016, Lemma 3)", ["AC Proposition 10"]),
        ("PK Lemma 12; Massart (2013), Theorem 5.8", ["PK Lemma 12"]),
    ],
)
def test_a_source_names_its_statements(text, expected):
    assert [" ".join(pair) for pair in citations.named(text)] == expected


def test_sources_stand_in_docstrings_and_comments():
    text = '''
"""A module. Source: PF (1)."""

# Source: PF (2).
def test_first():
    """One.

    Source: PF
    Lemma 3.
    """
    x = 1  # Source: PF (5).

class Second:
    def method(self):
        """Source: PF (7)."""
'''
    found = {item: place.name for (_, item), place in citations.in_file("jaxdp/a/b.py", text)}
    first = dict.fromkeys(("(2)", "Lemma 3", "(5)"), "jaxdp.a.b.test_first")
    assert found == {"(1)": "jaxdp.a.b", **first, "(7)": "jaxdp.a.b.Second.method"}
    with pytest.raises(ValueError, match="expected a range"):
        citations.named("AC (5) to (3)")


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
    for place, state in ((HERE, "function"), (RUN, "experiment"), (THERE, "held")):
        assert _states({("PF", "Theorem 2"): [HERE, place]}, LISTED)[1] == state
    data = {"PF": LISTED["PF"] | {"partly": {"Theorem 2": "one side"}}}
    assert "| partly: one side |" in coverage_page.page({("PF", "Theorem 2"): [THERE]}, data)


@pytest.mark.parametrize(
    ("cited", "message"),
    [
        ({("PF", "Lemma B.7"): [HERE]}, "no list has PF Lemma B.7, named at jaxdp/core/keys.py"),
        ({("PK", "Lemma B.1"): [THERE]}, "no list has"),
        ({("PF", "Figure 1"): [HERE]}, "PF Figure 1 has a reason, and is computed by"),
    ],
)
def test_a_mistyped_number_and_an_idle_reason_are_errors(cited, message):
    with pytest.raises(ValueError, match=message):
        coverage_page.papers(cited, LISTED)


def test_no_statement_is_missing_or_misnamed():
    assert "| held |" in coverage_page.current()

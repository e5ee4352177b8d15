"""The tables of `docs/papers/coverage.md`: each statement of the papers, and its code and tests.

The statements of the four papers are listed in `docs/papers/statements/<key>.toml`, in the order of
the paper. A list says why nothing computes a statement, or which part its tests leave out. The rest
is read from the lines `Source:` of the tree when the site is built.
"""

import dataclasses
import tomllib
from collections import Counter

import citations

LISTS = citations.ROOT / "docs" / "papers" / "statements"
KEYS = ("AC", "PF", "PK", "DR")
STATES = ("held", "partly", "experiment", "function", "reason", "missing")
# Summary of an equation that the list lacks and some line names.
_PROOF = "a step of a proof or of a derivation"


@dataclasses.dataclass(frozen=True)
class Statement:
    """A statement of a paper, and the code that computes it.

    Attributes:
        name: name in the paper, such as "Lemma 11, (18) to (20)"; its equations belong to it.
        says: summary of half a line.
        reason: explanation if nothing computes it; empty if something does or should.
        part: the part that its tests hold; empty if they hold all of it.
        places: places whose line `Source:` names it.
    """

    name: str
    says: str
    reason: str
    part: str
    places: tuple[citations.Place, ...]

    @property
    def state(self) -> str:
        """Held, partly, experiment, function, reason or missing."""
        kinds = {place.kind for place in self.places}
        if "test" in kinds:
            return "partly" if self.part else "held"
        if kinds:
            return "experiment" if "experiment" in kinds else "function"
        return "reason" if self.reason else "missing"


def papers(
    cited: dict[tuple[str, str], list[citations.Place]], listed: dict[str, dict]
) -> dict[str, tuple[list[Statement], list[Statement]]]:
    """The statements of each paper in its order, and equations of proofs that a line names.

    Args:
        cited: places that name each statement.
        listed: each paper's list, by key, with its numbered equations.

    Raises:
        ValueError: a line names a statement that no list has, or a list gives a reason for a
            computed statement or a part of one that no test names.
    """
    known: set[tuple[str, str]] = set()
    found = {}
    for key, data in listed.items():
        reasons, partly = data.get("reasons", {}), data.get("partly", {})
        if strange := {*reasons, *partly} - {*data["statements"]}:
            raise ValueError(f"{key} says more of what it does not list: {sorted(strange)}")
        rows, steps = [], []
        for name, says in data["statements"].items():
            parts = [(key, item) for item in citations.items(name)]
            if not parts or known & {*parts}:
                raise ValueError(f"expected a statement of {key} that is listed once, got {name}")
            known |= {*parts}
            places = sorted({place for part in parts for place in cited.get(part, [])})
            reason, part = reasons.get(name, ""), partly.get(name, "")
            if reason and places:
                raise ValueError(f"{key} {name} has a reason, and is computed by {places[0].name}")
            if part and not _is_tested(places):
                raise ValueError(f"{key} {name} is held in part, and no test names it")
            rows.append(
                Statement(name, says, reason, part or _tested_alone(parts, cited), tuple(places))
            )
        for item in citations.items(data["equations"]):
            if (key, item) not in known and (key, item) in cited:
                steps.append(Statement(item, _PROOF, "", "", tuple(cited[key, item])))
            known.add((key, item))
        found[key] = rows, steps
    # An appendix may be named like a section, which is no statement.
    unknown = sorted(name for name in {*cited} - known if not name[1].startswith("Appendix"))
    if unknown:
        lines = [
            f"{key} {item}, named at {place.path}: {place.name}"
            for key, item in unknown
            for place in cited[key, item]
        ]
        raise ValueError("no list has " + "; ".join(lines))
    return found


def _tested_alone(
    parts: list[tuple[str, str]], cited: dict[tuple[str, str], list[citations.Place]]
) -> str:
    """The equations that tests name, if these are some but not all of several.

    The name of a lemma stands for its equations; equations alone stand for themselves.
    """
    tested = [part[1] for part in parts if _is_tested(cited.get(part, []))]
    if len(tested) in (0, len(parts)) or any(not item.startswith("(") for _, item in parts):
        return ""
    return f"{', '.join(tested)} alone"


def _is_tested(places: list[citations.Place]) -> bool:
    return any(place.kind == "test" for place in places)


def page(cited: dict[tuple[str, str], list[citations.Place]], listed: dict[str, dict]) -> str:
    """The tables in Markdown."""
    found = papers(cited, listed)
    lines = [
        f"| paper | statements | {' | '.join(STATES)} | equations | without a row |",
        f"|---|---|{'---|' * len(STATES)}---|---|",
    ]
    for key, (rows, steps) in found.items():
        count = Counter(row.state for row in rows)
        equations = len(citations.items(listed[key]["equations"]))
        with_row = [item for row in (*rows, *steps) for item in citations.items(row.name)]
        numbers = [len(rows), *(count[state] for state in STATES), equations]
        numbers.append(equations - sum(item.startswith("(") for item in with_row))
        lines.append(f"| [{key}](#{key.lower()}) | {' | '.join(map(str, numbers))} |")
    for key, (rows, steps) in found.items():
        lines += ["", f"## {key}", "", f"*{listed[key]['title']}*", ""]
        lines += ["| statement | says | where | state |", "|---|---|---|---|"]
        lines += [_row(row) for row in (*rows, *steps)]
    return "\n".join(lines) + "\n"


def _row(row: Statement) -> str:
    """A line of a table; a name that a reader could write is set as code, a test is a sentence."""
    names = [
        place.name if place.path.startswith("tests/") else f"`{place.name}`" for place in row.places
    ]
    links = zip(names, row.places, strict=True)
    where = ", ".join(f"[{name}](../../{place.path})" for name, place in links)
    state = f"partly: {row.part}" if row.state == "partly" else row.state
    return f"| {row.name} | {row.says} | {where or row.reason} | {state} |"


def current() -> str:
    """The tables as the tree is now; ValueError if a statement is missing or misnamed."""
    listed = {key: tomllib.loads((LISTS / f"{key}.toml").read_text("utf-8")) for key in KEYS}
    cited = citations.everywhere()
    for key, (rows, _) in papers(cited, listed).items():
        if missing := [row.name for row in rows if row.state == "missing"]:
            raise ValueError(f"nothing computes {key} {', '.join(missing)}, for no reason")
    return page(cited, listed)

"""The statements of the four papers, what each says, and what of them is not held by a test.

They are listed in `docs/coverage/<key>.toml`, in the order of the paper. What stands there of a
statement's state is only why nothing computes it, or what its tests leave out; the rest is read
from where the tree names it.
"""

import dataclasses
import pathlib
import tomllib

import citations

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "coverage"
KEYS = ("AC", "PF", "PK", "DR")
# What is said of an equation that the list does not have, but some line names.
_PROOF = "a step of a proof or of a derivation"


@dataclasses.dataclass(frozen=True)
class Statement:
    """A statement of a paper, and where it is computed.

    Attributes:
        name: in the paper, such as "Lemma 11, (18) to (20)"; its equations belong to it.
        says: half a line.
        reason: why nothing computes it; empty where something does or should.
        part: what of it its tests hold, where that is not all of it; empty where it is.
        places: at which a line `Source:` names it.
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


@dataclasses.dataclass(frozen=True)
class Paper:
    """A paper and its statements.

    Attributes:
        key: AC, PF, PK or DR.
        title: of the paper.
        statements: in its order.
        steps: equations of proofs that a line names and no statement has.
        equations: how many the paper numbers.
    """

    key: str
    title: str
    statements: tuple[Statement, ...]
    steps: tuple[Statement, ...]
    equations: int

    @property
    def equations_without_row(self) -> int:
        """How many of the paper's equations belong to no statement and are named by no line."""
        rows = (*self.statements, *self.steps)
        items = [item for row in rows for item in citations.items(row.name)]
        return self.equations - sum(item.startswith("(") for item in items)


def papers(
    cited: dict[tuple[str, str], list[citations.Place]] | None = None,
    listed: dict[str, dict] | None = None,
) -> list[Paper]:
    """The four papers, with where each of their statements is computed.

    A list also says which numbers the paper's equations have: a line may name any of them, and one
    that belongs to no statement of the list gets a row of its own.

    Args:
        cited: where each statement is named, unless that is to be read from the tree.
        listed: the lists by key, unless those of the folder are to be read.

    Raises:
        ValueError: a line names what no list has, or a list gives a reason for what is computed or
            a part of what no test names.
    """
    cited = citations.everywhere() if cited is None else cited
    listed = {key: _read(key) for key in KEYS} if listed is None else listed
    known: set[tuple[str, str]] = set()
    found = []
    for key, data in listed.items():
        strange = (set(data["reasons"]) | set(data["partly"])) - set(data["statements"])
        if strange:
            raise ValueError(f"{key} says more of what it does not list: {sorted(strange)}")
        rows = []
        for name, says in data["statements"].items():
            parts = [(key, item) for item in citations.items(name)]
            if not parts or known & set(parts):
                raise ValueError(f"expected a statement of {key} that is listed once, got {name}")
            known |= set(parts)
            places = sorted({place for part in parts for place in cited.get(part, [])})
            reason, part = data["reasons"].get(name, ""), data["partly"].get(name, "")
            if reason and places:
                raise ValueError(f"{key} {name} has a reason, and is computed by {places[0].name}")
            if part and not _is_tested(places):
                raise ValueError(f"{key} {name} is held in part, and no test names it")
            part = part or _unnamed(parts, cited)
            rows.append(Statement(name, says, reason, part, tuple(places)))
        numbers = citations.items(data["equations"])
        steps = []
        for item in numbers:
            if (key, item) not in known:
                known.add((key, item))
                places = tuple(cited.get((key, item), ()))
                steps += [Statement(item, _PROOF, "", "", places)] if places else []
        found.append(Paper(key, data["title"], tuple(rows), tuple(steps), len(numbers)))
    # An appendix may be named like a section, which is no statement.
    unknown = sorted(name for name in set(cited) - known if not name[1].startswith("Appendix"))
    if unknown:
        lines = [
            f"{key} {item}, named at {place.path}: {place.name}"
            for key, item in unknown
            for place in cited[key, item]
        ]
        raise ValueError("no list has " + "; ".join(lines))
    return found


def _unnamed(
    parts: list[tuple[str, str]], cited: dict[tuple[str, str], list[citations.Place]]
) -> str:
    """Which of several equations tests name, where they are not all of them.

    The name of a lemma stands for its equations; equations alone stand for themselves.
    """
    tested = [part[1] for part in parts if _is_tested(cited.get(part, []))]
    if len(tested) in (0, len(parts)) or any(not item.startswith("(") for _, item in parts):
        return ""
    return f"{', '.join(tested)} alone"


def _is_tested(places: list[citations.Place]) -> bool:
    return any(place.kind == "test" for place in places)


def _read(key: str) -> dict:
    """The list of one paper."""
    data = tomllib.loads((FOLDER / f"{key}.toml").read_text(encoding="utf-8"))
    return {"reasons": {}, "partly": {}, **data}

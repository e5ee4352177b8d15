"""The statements of the four papers, what each says, and why some cannot be computed.

They are listed in `docs/coverage/<key>.toml`, in the order of the paper.
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
        places: at which a line `Source:` names it.
    """

    name: str
    says: str
    reason: str
    places: tuple[citations.Place, ...]

    @property
    def state(self) -> str:
        """Function, test, function and test, experiment, reason or missing."""
        kinds = {place.kind for place in self.places}
        if shown := [kind for kind in ("function", "test") if kind in kinds]:
            return " and ".join(shown)
        return "experiment" if kinds else "reason" if self.reason else "missing"


@dataclasses.dataclass(frozen=True)
class Paper:
    """A paper and its statements.

    Attributes:
        key: AC, PF, PK or DR.
        title: of the paper.
        statements: in its order.
    """

    key: str
    title: str
    statements: tuple[Statement, ...]


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
        ValueError: a line names what no list has, or a reason is given for what is computed.
    """
    cited = citations.everywhere() if cited is None else cited
    listed = {key: _read(key) for key in KEYS} if listed is None else listed
    known: set[tuple[str, str]] = set()
    found = []
    for key, data in listed.items():
        strange = set(data["reasons"]) - set(data["statements"])
        if strange:
            raise ValueError(f"{key} gives a reason for what it does not list: {sorted(strange)}")
        rows = []
        for name, says in data["statements"].items():
            parts = [(key, item) for item in citations.items(name)]
            if not parts or known & set(parts):
                raise ValueError(f"expected a statement of {key} that is listed once, got {name}")
            known |= set(parts)
            places = sorted({place for part in parts for place in cited.get(part, [])})
            reason = data["reasons"].get(name, "")
            if reason and places:
                raise ValueError(f"{key} {name} has a reason, and is computed by {places[0].name}")
            rows.append(Statement(name, says, reason, tuple(places)))
        for item in citations.items(data["equations"]):
            if (key, item) not in known:
                known.add((key, item))
                places = tuple(cited.get((key, item), ()))
                rows += [Statement(item, _PROOF, "", places)] if places else []
        found.append(Paper(key, data["title"], tuple(rows)))
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


def _read(key: str) -> dict:
    """The list of one paper."""
    data = tomllib.loads((FOLDER / f"{key}.toml").read_text(encoding="utf-8"))
    return {"reasons": {}, **data}

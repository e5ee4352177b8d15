"""The page of statements, `docs/coverage.md`, from the lists and the lines `Source:` of the tree.

python docs/hooks/coverage_page.py            writes the page
python docs/hooks/coverage_page.py --check    fails where the page is old
python docs/hooks/coverage_page.py --missing  fails where a statement is missing, and lists them
"""

import argparse
import sys
from collections import Counter

import citations
import statements

PAGE = citations.ROOT / "docs" / "coverage.md"
STATES = ("held", "partly", "experiment", "function", "reason", "missing")


def page(papers: list[statements.Paper]) -> str:
    """Markdown of the page."""
    lines = [
        "# Statements",
        "",
        "Every statement of the four papers, and the code that computes or tests it. The page is "
        "written by `make coverage` from the lines `Source:` in docstrings and comments and from "
        "the lists in [docs/coverage](coverage), which also say why a statement is not "
        "computed. What is wrong in print is in [Errata](ERRATA.md), and is implemented as it is "
        "right.",
        "",
        "- *held*: a test, or a run of `experiments.statements.lemmas` that a test reads, sets it, "
        "or a function that computes it, beside a reference; an order without constants beside its "
        "growth over sizes; what is wrong in print as it is right.",
        "- *partly*: a test sees one side, one regime or a consequence of it. The row says which.",
        "- *experiment*: runs of a figure show it, and no test; *function*: it is computed, and "
        "not tested.",
        "- *reason*: nothing computes it, and the row says why.",
        "",
        "None is *missing* because none may be: a statement that nothing computes needs a reason. "
        "So the last two columns count what the lists cannot hide: the equations that a paper "
        "numbers, and those of them without a row. An equation of a proof has one if a line names "
        "it; such rows stand below the statements and are not counted as statements.",
        "",
        f"| paper | statements | {' | '.join(STATES)} | equations | without a row |",
        f"|---|---|{'---|' * len(STATES)}---|---|",
    ]
    for paper in papers:
        count = Counter(row.state for row in paper.statements)
        numbers = [len(paper.statements), *(count[state] for state in STATES)]
        numbers += [paper.equations, paper.equations_without_row]
        lines.append(f"| [{paper.key}](#{paper.key.lower()}) | {' | '.join(map(str, numbers))} |")
    for paper in papers:
        lines += [
            "",
            f"## {paper.key}",
            "",
            f"*{paper.title}*",
            "",
            "| statement | says | where | state |",
            "|---|---|---|---|",
            *(_row(row) for row in (*paper.statements, *paper.steps)),
        ]
    return "\n".join(lines) + "\n"


def _row(row: statements.Statement) -> str:
    """A line of a table."""
    where = ", ".join(f"[{_called(place)}](../{place.path})" for place in row.places)
    state = f"partly: {row.part}" if row.state == "partly" else row.state
    return f"| {row.name} | {row.says} | {where or row.reason} | {state} |"


def _called(place: citations.Place) -> str:
    """What a reader could write is set as code; a test is a sentence."""
    return place.name if place.path.startswith("tests/") else f"`{place.name}`"


def missing(papers: list[statements.Paper]) -> list[str]:
    """The statements that nothing computes and that have no reason."""
    return [
        f"{paper.key} {row.name}"
        for paper in papers
        for row in paper.statements
        if row.state == "missing"
    ]


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # pyright: ignore[reportOptionalMemberAccess]
    parser.add_argument("--check", action="store_true", help="fail where the page is old")
    parser.add_argument("--missing", action="store_true", help="fail where a statement is missing")
    chosen = parser.parse_args(arguments)
    try:
        papers = statements.papers()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if chosen.missing:
        print("\n".join(missing(papers)))
        return bool(missing(papers))
    if chosen.check:
        is_old = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page(papers)
        if is_old:
            print("docs/coverage.md is old: `make coverage` writes it anew", file=sys.stderr)
        return is_old
    PAGE.write_text(page(papers), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

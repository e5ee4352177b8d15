"""`jaxdp audit`: what the scores of canaries show, beside the epsilon that is claimed."""

import argparse

import numpy as np

import jaxdp
from jaxdp.cli.output import as_json
from jaxdp.data.table_files import as_numbers, open_table


def audit(options: argparse.Namespace) -> int:
    """Print the bound and the verdict; return 1 if the claim is refuted, else 0."""
    claimed, delta = options.claimed_epsilon, options.delta
    if not 0 <= claimed < np.inf:
        raise ValueError(f"expected 0 <= --claimed-epsilon < infinity, got {claimed}")
    scores, included = _recorded(options.scores)
    # The second: the bound if every guess were right.
    found, most = (
        jaxdp.privacy.audit_one_run(each, included, delta=delta, confidence=options.confidence)
        for each in (scores, included.astype(float))
    )
    if most == 0:
        asked = f"delta {delta:g} and confidence {options.confidence:g}"
        came = f"{len(scores)}, which show nothing at {asked}"
        raise ValueError(f"{options.scores}: expected more canaries or a smaller delta, got {came}")
    facts = {"lower_bound": found, "largest_possible": most, "claimed_epsilon": claimed}
    facts |= {"delta": delta, "confidence": options.confidence, "num_canaries": len(scores)}
    if options.json:
        print(as_json(facts | {"is_refuted": found > claimed}))
    else:
        print(
            f"{len(scores)} canaries: epsilon is at least {found:.2f} at delta {delta:g}, with "
            f"confidence {options.confidence:g} (they can show {most:.2f} at most)\n"
            f"claimed epsilon {claimed:g}: "
            f"{'refuted' if found > claimed else 'not refuted, which proves nothing'}"
        )
    return int(found > claimed)


def _recorded(path) -> tuple[np.ndarray, np.ndarray]:
    """The scores, and whether each canary was included; ValueError for a wrong file."""
    names, read = open_table(path, header=True)
    if not {"score", "included"} <= set(names):
        came = ", ".join(names[:8])
        raise ValueError(f"{path}: expected columns named score and included, got {came}")
    columns = read(())
    scores, included = (as_numbers(columns[names.index(name)]) for name in ("score", "included"))
    for name, is_right, wanted in (
        ("score", ~np.isnan(scores), "a number"),
        ("included", np.isin(included, [0, 1]), "0 or 1"),
    ):
        if not is_right.all():
            came = f"another in row {np.argmin(is_right) + 1}"
            raise ValueError(f"{path}: expected {wanted} in every cell of {name}, got {came}")
    if len(set(included)) < 2:
        came = f"{included[0]:g} in all of them"
        raise ValueError(f"{path}: expected 0 and 1 among the cells of included, got {came}")
    return scores, included == 1

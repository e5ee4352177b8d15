"""`jaxdp audit`: a lower bound on epsilon from recorded scores, beside the epsilon that is claimed.

The training may have been done by any library.
"""

import argparse

import numpy as np

import jaxdp
from jaxdp.cli.output import as_json
from jaxdp.data.table_files import open_table

_COLUMNS = ("score", "included")


def audit(options: argparse.Namespace) -> int:
    """Print the bound and the verdict; return 1 if the claim is refuted, else 0."""
    scores, included = _recorded(options)
    given = {"delta": options.delta, "confidence": options.confidence}
    if options.independent_runs:
        found = jaxdp.privacy.audit(scores[included], scores[~included], **given)
        most = jaxdp.privacy.audit(np.ones(included.sum()), np.zeros((~included).sum()), **given)
    else:
        found, most = (
            jaxdp.privacy.audit_one_run(each, included, **given) for each in (scores, included * 1)
        )
    if most == 0:
        raise ValueError(
            f"{options.scores}: expected enough canaries to show something at confidence "
            f"{options.confidence:g} and delta {options.delta:g}, got {len(scores)}"
        )
    claimed = options.claimed_epsilon
    is_refuted = found > claimed
    facts = {"lower_bound": found, "largest_possible": most, "claimed_epsilon": claimed, **given}
    facts |= {"num_scores": len(scores), "num_included": int(included.sum())}
    if options.json:
        print(as_json(facts | {"is_refuted": is_refuted}))
        return int(is_refuted)
    what = "independent runs" if options.independent_runs else "canaries of one run"
    print(f"{len(scores)} {what}, {included.sum()} included; they can show {most:.2f} at most")
    print(f"epsilon is at least {found:.2f} at delta {options.delta:g}", end=", ")
    print(f"with confidence {options.confidence:g}")
    verdict = "refuted" if is_refuted else "not refuted, which proves nothing"
    print(f"claimed epsilon {claimed:g}: {verdict}")
    return int(is_refuted)


def _recorded(options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """The scores, and whether the canary was among the records; ValueError for a wrong file."""
    if not 0 <= options.claimed_epsilon < np.inf:
        came = options.claimed_epsilon
        raise ValueError(f"expected 0 <= --claimed-epsilon < infinity, got {came}")
    names, read = open_table(options.scores)
    if not set(_COLUMNS) <= set(names):
        wanted = "a first line with the names score and included"
        raise ValueError(f"{options.scores}: expected {wanted}, got {', '.join(names[:8])}")
    columns = read(())
    scores, included = (np.asarray(columns[names.index(name)]) for name in _COLUMNS)
    if scores.dtype.kind != "f" or np.isnan(scores).any():
        raise ValueError(f"{options.scores}: expected a number in every cell of score")
    if included.dtype.kind != "f" or not np.isin(included, (0, 1)).all():
        raise ValueError(f"{options.scores}: expected 0 or 1 in every cell of included")
    if included.all() or not included.any():
        raise ValueError(f"{options.scores}: expected both 0 and 1 in included, got one of them")
    return scores, included == 1

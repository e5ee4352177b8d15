"""`jaxdp audit`: the library's bounds, a verdict as exit status, and refusals in one line."""

import json

import numpy as np
import pytest

import jaxdp


def _written(tmp_path, mu=2.5, count=1000, head="score,included"):
    rng = np.random.default_rng(0)
    included = rng.random(count) < 0.5
    scores = mu * included + rng.normal(size=count)
    rows = (f"{score!r},{int(coin)}" for score, coin in zip(scores.tolist(), included, strict=True))
    path = tmp_path / "scores.csv"
    path.write_text("\n".join([head, *rows, ""]))
    return path, scores, included


def _asked(claimed, *more):
    return "--claimed-epsilon", str(claimed), "--delta", "1e-5", *more


def test_the_bound_is_the_librarys_and_the_verdict_the_exit_status(run, tmp_path):
    path, scores, included = _written(tmp_path)
    bound = jaxdp.privacy.audit_one_run(scores, included, delta=1e-5)
    for claimed, status in ((1, 1), (np.nextafter(bound, 0), 1), (bound, 0), (8, 0)):
        found, out, err = run("audit", path, *_asked(claimed, "--json"))
        facts = json.loads(out)
        assert (found, err, facts["is_refuted"]) == (status, "", bool(status))
        assert facts["lower_bound"] == bound <= facts["largest_possible"]
    assert "claimed epsilon 8: not refuted" in run.well("audit", path, *_asked(8))


REFUSED = [
    ({"count": 3}, (), "expected more canaries, got 3"),
    ({"head": "loss,included"}, (), "named score and included, got loss, included"),
    ({}, ("nan,1",), "a number in every cell of score"),
    ({}, ("far,1",), "a number in every cell of score"),
    ({}, ("1.0,2",), "0 or 1 in every cell of included"),
]


@pytest.mark.parametrize(("made", "added", "words"), REFUSED)
def test_a_file_that_shows_nothing_is_refused(run, tmp_path, made, added, words):
    path, *_ = _written(tmp_path, **made)
    path.write_text(path.read_text() + "\n".join(added))
    assert words in run.refused("audit", path, *_asked(1))


def test_wrong_claims_are_refused(run, tmp_path):
    path, *_ = _written(tmp_path)
    assert "--claimed-epsilon" in run.refused("audit", path, *_asked("-1"))
    path.write_text("score,included\n1.0,1\n2.0,1\n")
    assert "and both in some" in run.refused("audit", path, *_asked(1))

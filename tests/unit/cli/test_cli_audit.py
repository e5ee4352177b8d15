"""`jaxdp audit`: the library's bound, a verdict as exit status, and refusals in one line."""

import json

import numpy as np
import pytest

import jaxdp

REFUSED = [
    (3, "score,included", "", "expected more canaries or a smaller delta, got 3"),
    (99, "loss,included", "", "named score and included, got loss, included"),
    (99, "score,included", "nan,1", "a number in every cell of score"),
    (99, "score,included", "far,1", "a number in every cell of score"),
    (99, "score,included", "1.0,2", "0 or 1 in every cell of included, got another in row 100"),
    (0, "score,included", "1.0,1", "0 and 1 among the cells of included, got 1 in all of them"),
    (99, "1.5,0", "", "named score and included, got 1.5, 0"),
]


def _written(tmp_path, count=1000, head="score,included", more=""):
    rng = np.random.default_rng(0)
    included = rng.random(count) < 0.5
    scores = 2.5 * included + rng.normal(size=count)
    rows = (f"{score!r},{int(coin)}" for score, coin in zip(scores.tolist(), included, strict=True))
    path = tmp_path / "scores.csv"
    path.write_text("\n".join([head, *rows, more]))
    return path, scores, included


def _asked(path, claimed, *more):
    return "audit", path, "--claimed-epsilon", str(claimed), "--delta", "1e-5", *more


def test_the_bound_is_the_librarys_and_the_verdict_the_exit_status(run, tmp_path):
    path, scores, included = _written(tmp_path)
    bound = jaxdp.privacy.audit_one_run(scores, included, delta=1e-5)
    for claimed, status in ((bound / 2**0.5, 1), (np.nextafter(bound, 0), 1), (bound, 0), (8, 0)):
        found, out, err = run(*_asked(path, claimed, "--json"))
        facts = json.loads(out)
        assert (found, err, facts["is_refuted"]) == (status, "", bool(status))
        assert facts["lower_bound"] == bound <= facts["largest_possible"]
    assert "claimed epsilon 8: not refuted" in run.well(*_asked(path, 8))


@pytest.mark.parametrize(("count", "head", "more", "words"), REFUSED)
def test_a_file_that_shows_nothing_is_refused(run, tmp_path, count, head, more, words):
    path, *_ = _written(tmp_path, count, head, more)
    assert words in run.refused(*_asked(path, 1))
    assert "--claimed-epsilon" in run.refused(*_asked(path, -1))

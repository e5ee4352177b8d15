"""Private training of networks, predicted: its cells, and a judgement of made-up errors."""

import numpy as np
import pytest

from experiments import made_up
from experiments.forecast import networks


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    made_up.digits(folder)
    return networks.run(networks.Config.smoke(), folder)


def test_names_are_unique_and_every_kind_has_cells():
    cells = networks.Config().cells
    assert len({one.name for one in cells}) == len(cells)
    counts = {kind: sum(one.kind == kind for one in cells) for kind in networks.KINDS}
    assert counts == {"study": 11, "new": 10, "edge": 4}


@pytest.mark.slow
def test_a_smoke_version_has_every_number(found):
    assert all(np.isfinite(one).all() for one in found.data_vars.values())
    np.testing.assert_allclose(
        found.told_movement.sel(segments=4), found.movement.mean("run"), rtol=0.05
    )


@pytest.mark.slow
def test_loss_and_accuracy_of_counted_cells_decide(found):
    exact = found.assign(
        told_loss=found.loss.mean("run") + 0 * found.told_loss,
        told_accuracy=found.accuracy.mean("run") + 0 * found.told_accuracy,
        start_loss=2 * found.loss.mean("run"),
    )
    assert [*networks.claims(exact).values()] == [True, True]
    is_edge = exact.kind == "edge"
    for name in ("told_loss", "told_accuracy"):
        wrong = exact.assign({name: exact[name].where(~is_edge, 9.0)})
        assert [*networks.claims(wrong).values()] == [True, True]
        wrong = exact.assign({name: exact[name].where(is_edge, 9.0)})
        assert [*networks.claims(wrong).values()] == [False, True]
    assert [*networks.claims(exact.assign(start_loss=exact.loss.mean("run"))).values()][1] is False

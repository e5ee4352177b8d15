"""Results show their numbers in notebooks, as tables without markup of their own or secrets."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.attacks.leak import LeakReport, Verdict
from jaxdp.attacks.optimisers.base import Ending
from jaxdp.attacks.reconstruction import Reconstruction
from jaxdp.core.display import WIDTH
from jaxdp.kernels.functions.dot_product import IdentityFeatures
from jaxdp.kernels.release.released_function import ReleasedFunction
from jaxdp.kernels.release.tables import ColumnNames

DESCENT = jaxdp.DPGD(0.02, 1.0, 50, 2.0)


def _shown(result):
    html = result._repr_html_()
    assert html.startswith("<div>")
    assert "object at 0x" not in html
    return html


def test_what_an_attack_found_is_counted_and_not_shown():
    found = Reconstruction(
        jnp.full((3, 2), 7.25), 1e-9, True, 12.5, Ending.CONVERGED, jnp.asarray([1e-9])
    )
    for text in (_shown(found), str(found)):
        assert "3 rows of 2 numbers" in text
        assert "converged" in text
        assert "7.25" not in text
    report = LeakReport(next(iter(Verdict)), np.asarray([0.5, 0.25]), None, 40, 20)
    assert "0.5, 0.25" in _shown(report)


@pytest.mark.parametrize("columns", [None, ColumnNames(("<a>", "b"), "y")])
def test_a_released_function_shows_what_it_costs(columns):
    released = ReleasedFunction(
        features=IdentityFeatures(2),
        coefficients=jnp.asarray([0.5, -0.5]),
        statement=DESCENT.release(),
        delta=1e-5,
        public_seed=7,
        columns=columns,
    )
    html = _shown(released)
    assert "1.99" in html
    assert "<a>" not in html
    assert ("&lt;a&gt;, b" in html) == (columns is not None)
    assert max(map(len, str(released).splitlines())) <= WIDTH

"""Fitted families of schedules: what they reach, and what they may not seem to reach."""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plan_cells import CELLS

import jaxdp
from jaxdp.core.numerics.descent import descend
from jaxdp.core.numerics.precision import on_host
from jaxdp.planning.streams.best_schedule import (
    cold_starts,
    family_of,
    fit,
    greedy,
    log_risk,
    solve,
)
from jaxdp.planning.streams.families import FreeForm, Parametric, schedule_log_risk, two_sided_clock

pytestmark = pytest.mark.long_runs

FAMILIES = {
    "constant": jaxdp.Constant,
    "root": functools.partial(jaxdp.Polynomial, power=0.5),
    "polynomial": jaxdp.Polynomial,
    "hyperbolic": jaxdp.Hyperbolic,
}


@pytest.mark.slow
def test_the_best_hyperbola_is_that_of_the_references():
    found = solve(family_of(jaxdp.Hyperbolic), CELLS[1].setting)
    np.testing.assert_allclose(found.risk, CELLS[1].hyperbolic, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_the_best_of_each_family_is_that_of_all_references(name):
    family = family_of(FAMILIES[name])
    for cell in CELLS[:15]:
        # As `solve` does, which searches for the best of all where the references have it.
        least = cell.optimal * (1 - 1e-4)
        found = fit(family, cell.setting, cold_starts(family, cell.setting), least)
        np.testing.assert_allclose(found.risk, getattr(cell, name), rtol=1e-4)


@pytest.mark.slow
def test_no_free_form_is_better_than_the_greedy_arc():
    family, (kept, tolerance) = FreeForm(24), CELLS[0].setting.effort

    @eqx.filter_jit
    def of_rows(points, settings):
        def one(point, setting):
            return jax.value_and_grad(lambda point: log_risk(family, point, setting))(point)

        return jax.vmap(one)(points, settings)

    # The descents that `fit` makes, of all cells at once: no row of a batch depends on another.
    leaves = [cell.setting for cell in CELLS]
    settings = jax.tree.map(lambda *parts: np.repeat(np.stack(parts), kept, axis=0), *leaves)
    starts = np.stack([cold_starts(family, setting) for setting in leaves])
    with on_host():

        def evaluate(points):
            return of_rows(jnp.asarray(points), settings)

        parts = np.split(starts, starts.shape[1] // kept, axis=1)
        values = [evaluate(np.concatenate(part))[0].reshape(-1, kept) for part in parts]
        values = np.concatenate(values, axis=1)
        values[~np.isfinite(values)] = np.inf
        best = np.argsort(values, axis=1)[:, :kept, None]
        starts = np.concatenate(np.take_along_axis(starts, best, axis=1))
        _, found = descend(evaluate, starts, tolerance=tolerance)
    risks = np.exp(found.reshape(-1, kept).min(axis=1))
    for cell, risk in zip(CELLS, risks, strict=True):
        assert cell.optimal * (1 - 1e-5) < risk < cell.optimal * (1 + 1e-3), cell
    # One by one they are those of `fit`.
    for setting, risk in zip(leaves[:2], risks, strict=False):
        alone = fit(family, setting, cold_starts(family, setting), 1e-300)
        np.testing.assert_allclose(alone.risk, risk, rtol=1e-6)


@pytest.mark.slow
def test_a_fit_that_seems_to_be_better_than_the_best_of_all_is_refused():
    setting = CELLS[1].setting
    family = Parametric(jaxdp.Hyperbolic)
    _, best = greedy(setting)
    # As if every risk were an error of the integration.
    found = fit(family, setting, cold_starts(family, setting), 100 * best)
    assert math.isinf(found.risk) or found.risk >= 100 * best


def _log_risk(rate, clip_scale, setting):
    with on_host():
        clock = two_sided_clock(jnp.asarray(setting.gamma), 801)
        schedule = jaxdp.Constant(jnp.asarray(rate))
        return float(_jitted(schedule, jnp.log(clip_scale), setting, clock))


_jitted = jax.jit(schedule_log_risk)


def test_no_rate_however_large_seems_to_be_better_than_the_best_of_all():
    """Where the fixed steps fail the risk is infinite and not, cut off at 0, a small one."""
    for cell in (CELLS[4], CELLS[14]):
        for caps in np.geomspace(1e-3, 3, 6):
            for clip_scale in np.geomspace(1e-4, 10, 6):
                found = _log_risk(caps * cell.setting.cap, clip_scale, cell.setting)
                assert found > math.log(cell.constant) - 1e-4


def test_what_a_family_is_asked_for_is_its_parameters_without_a_value():
    assert Parametric(jaxdp.Polynomial).names == ("peak", "power")
    assert Parametric(functools.partial(jaxdp.Polynomial, power=0.5)).names == ("peak",)
    assert Parametric(lambda height, bend=2.0: jaxdp.Constant(height * bend)).names == ("height",)
    for wrong in (3.0, jaxdp.Constant(2.0), lambda: jaxdp.Constant(1.0), None):
        with pytest.raises(TypeError, match="expected schedule to"):
            Parametric(wrong)


def test_a_free_form_never_rises_and_never_exceeds_the_cap():
    rng = np.random.default_rng(0)
    for _ in range(20):
        rates = FreeForm(12).schedule(jnp.asarray(rng.normal(0, 3, 12)), CELLS[1].setting).values
        assert np.all(np.diff(rates) <= 0)
        assert 0 <= rates.min() <= rates.max() <= 20

"""Random features under DP-GD: smoke versions, claims that can be false, and their short cuts."""

import dataclasses
import json
import math

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import jaxdp
from experiments import command, report
from experiments.privacy_for_free import excess_risk, fig03_random_features
from experiments.privacy_for_free.batches import (
    final_risks,
    interpolator_risk,
    noise_per_root_time,
    steps_for,
)
from experiments.privacy_for_free.fig03_checks import _KNOWN, _KNOWN_INTERPOLATOR, _known_values
from experiments.privacy_for_free.nested_widths import at_widths

FIGURES = [fig03_random_features, excess_risk]


@pytest.fixture(scope="module")
def limit():
    return jaxdp.RandomFeatures.sample(40, 20, 6, None, key=jr.key(0))


@pytest.mark.slow
def test_nested_widths_are_the_problems_of_the_first_weights(limit):
    widths = [15, 40, 70, 100, 230]
    found = list(at_widths(limit, [*widths, math.inf], key=jr.key(1)))
    assert [at.width for at in found] == [*widths, math.inf]
    weights = jr.normal(jr.key(1), (230, 6)) / np.sqrt(6)
    for at, width in zip(found, [*widths, None], strict=True):
        problem = dataclasses.replace(limit, weights=None if width is None else weights[:width])
        ours, direct = at.problem, problem.reduced()
        kernels = [np.asarray(of.test_features() @ of.train_features().T) for of in (ours, direct)]
        np.testing.assert_allclose(*kernels, rtol=1e-4, atol=1e-5 * np.abs(kernels[1]).max())
        # The peak at p = n magnifies the features' rounding.
        tolerance = 0.05 if width == 40 else 1e-3
        assert at.interpolator_risk == pytest.approx(problem.interpolator_risk(), rel=tolerance)


def test_the_cheap_interpolator_is_the_one_by_svd(limit):
    for width in (15, 40, 100):
        reduced = dataclasses.replace(limit, weights=jr.normal(jr.key(2), (width, 6))).reduced()
        assert interpolator_risk(reduced) == pytest.approx(reduced.interpolator_risk(), rel=1e-6)


@pytest.mark.slow
def test_settings_run_together_are_those_of_a_calibrated_algorithm(limit):
    problem, tau = limit.reduced(), 20.0
    noises = [noise_per_root_time(4.0, 0.01, name) for name in ("published", "exact")]
    assert noises[0] == pytest.approx(np.sqrt(8 * np.log(100)) / 4)
    clips = jnp.full(2, 0.5)
    times = jnp.full(2, tau)
    together, clipped = final_risks(
        problem, times, clips, jnp.asarray(noises), num_steps=5, key=jr.key(3)
    )
    calibrations = (jaxdp.PublishedCalibration(), jaxdp.ExactCalibration())
    for risk, share, calibration in zip(together, clipped, calibrations, strict=True):
        algorithm = jaxdp.DPGD.calibrated(
            4.0, 0.01, learning_rate=tau / 5, clip_norm=0.5, num_steps=5, calibration=calibration
        )
        alone = jaxdp.simulate(problem, algorithm, key=jr.key(3), records=1)
        np.testing.assert_allclose(risk, alone.final_risk, rtol=1e-5)
        fraction = alone.observables["clipped_fraction"]
        np.testing.assert_allclose(share, fraction[:, -1], rtol=1e-5)


def test_steps_keep_the_rate_below_a_third_of_the_limit():
    assert steps_for(10.0, 3.0, 4) == 10
    assert steps_for(1.0, 3.0, 4) == 4


@pytest.mark.parametrize("figure", FIGURES)
def test_a_config_that_does_not_fit_is_refused(figure):
    field = {fig03_random_features: "heat_width", excess_risk: "finite_dim"}[figure]
    with pytest.raises(ValueError, match=field):
        figure.Config(**{field: 7})


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The files of all smoke runs, and each command's exit status."""
    folder = tmp_path_factory.mktemp("experiments") / "results"
    arguments = ["--smoke", "--out", str(folder)]
    return folder, [command.main(figure, arguments) for figure in FIGURES]


def _dataset(results, figure):
    return command.read(results[0] / f"{figure.__name__.rpartition('.')[2]}.nc")


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES)
def test_every_claim_of_the_smoke_version_holds(results, figure):
    claims = figure.claims(_dataset(results, figure))
    assert claims
    assert all(claims.values()), claims


@pytest.mark.slow
def test_commands_write_data_and_picture_and_end_well(results):
    folder, statuses = results
    assert statuses == [0, 0]
    names = sorted(path.name for path in folder.iterdir())
    stems = ["excess_risk", "fig03_random_features"]
    assert names == [f"{stem}{suffix}" for stem in stems for suffix in (".nc", ".png")]
    assert all(path.stat().st_size < 300_000 for path in folder.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES)
def test_the_report_has_every_claim_and_the_data_say_how_they_were_made(results, figure):
    dataset = _dataset(results, figure)
    assert dataset.attrs["command"].startswith(f"python -m {figure.__name__} --smoke")
    assert json.loads(dataset.attrs["config"])
    text, holds = report.page({"figure": dataset}, "results")
    assert holds
    for check in figure.checks(dataset):
        assert check.claim.replace("|", "\\|") in text


def _scaled(name, factor):
    return lambda dataset: dataset.assign({name: dataset[name] * factor})


def _without_a_peak(dataset):
    return dataset.assign(interpolator=dataset.interpolator.clip(max=0.6))


def _with_a_peak(dataset):
    at_peak = dataset.width == dataset.num_train
    return dataset.assign(risk=dataset.risk + 2 * at_peak)


def _swapped(dataset):
    """The calibrations, each called by the other's name."""
    return dataset.assign(
        {
            name: dataset[name].copy(data=dataset[name].sel(calibration=["exact", "published"]))
            for name in ("risk",)
        }
    )


def _not_at_its_limit(dataset):
    return dataset.assign(risk=dataset.risk + 0.3 * np.isinf(dataset.width))


def _shifted_with_width(dataset):
    """Curves against the number of steps, as if that were the axis."""
    widths = dataset.width.data[1:-1]
    rolled = dataset.risk.copy()
    for count, width in enumerate(widths):
        rolled.loc[{"width": width}] = dataset.risk.sel(width=width).roll(time=2 * count)
    return dataset.assign(risk=rolled)


def _same_at_every_width(dataset):
    """Nothing but noise in the way of tau."""
    return dataset.assign(risk=dataset.risk.mean("time") + 0 * dataset.risk)


def _more_with_more_steps(dataset):
    return dataset.assign(step_risk=dataset.step_risk + 0.001 * dataset.step_count)


def _heat_upside_down(dataset):
    return dataset.assign(heat_risk=dataset.heat_risk.copy(data=dataset.heat_risk.data[:, ::-1]))


def _never_clipped(dataset):
    return dataset.assign(heat_clipped=0 * dataset.heat_clipped)


def _tuned_elsewhere(dataset):
    last = dataset.tuned_width == dataset.tuned_width[-1]
    flipped = dataset.tuned_risk[:, :, ::-1].data
    return dataset.assign(
        tuned_risk=dataset.tuned_risk.where(~last, dataset.tuned_risk.copy(data=flipped))
    )


def _as_dear_at_any_budget(dataset):
    # The same excess risk everywhere, up to a wiggle that leaves the fit an error.
    wiggle = 0.001 * (dataset.num_train % 3)
    return dataset.assign(risk=dataset.interpolator + 0.1 + wiggle + 0 * dataset.risk)


def _rising_at_the_end(name, along):
    def change(dataset):
        is_last = dataset[along] == dataset[along][-1]
        return dataset.assign({name: dataset[name] + 0.5 * is_last})

    return change


_CHANGES = [
    (fig03_random_features, "theta* peaks", _without_a_peak),
    (fig03_random_features, "no peak", _with_a_peak),
    (fig03_random_features, "infinite-width limit", _not_at_its_limit),
    (fig03_random_features, "better at every p", _swapped),
    (fig03_random_features, "curves of all p", _shifted_with_width),
    (fig03_random_features, "number of steps the same", _same_at_every_width),
    (fig03_random_features, "best tau p/d is longer", _swapped),
    (fig03_random_features, "most gradients", _scaled("clipped", 0.5)),
    (fig03_random_features, "from 8 steps", _more_with_more_steps),
    (fig03_random_features, "nothing is learnt", _heat_upside_down),
    (fig03_random_features, "valley", _heat_upside_down),
    (fig03_random_features, "best cells clip", _never_clipped),
    (fig03_random_features, "tuned at any p", _tuned_elsewhere),
    (fig03_random_features, "minutes", _scaled("seconds", 1e4)),
    (excess_risk, "below the sum", _scaled("risk", 10)),
    (excess_risk, "rises with epsilon", _rising_at_the_end("risk", "epsilon")),
    (excess_risk, "rises with n", _rising_at_the_end("risk", "num_train")),
    (excess_risk, "never worse", _swapped),
    (excess_risk, "a third of that", _rising_at_the_end("risk", "epsilon")),
    (excess_risk, "(published)", _as_dear_at_any_budget),
    (excess_risk, "(exact)", _as_dear_at_any_budget),
    (excess_risk, "is level", _rising_at_the_end("interpolator", "num_train")),
    (excess_risk, "cubics", _scaled("interpolator", 0.5)),
    (excess_risk, "that of infinite width", _scaled("finite_risk", 1.5)),
    (excess_risk, "worse than at infinite width", _scaled("finite_interpolator", 0.5)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("figure", "claim", "change"), _CHANGES)
def test_a_claim_is_false_of_data_that_do_not_bear_it_out(results, figure, claim, change):
    claims = figure.claims(change(_dataset(results, figure)))
    (name,) = [name for name in claims if claim in name]
    assert not claims[name]


def _as_in_the_paper(dataset):
    """A dataset whose widths and least errors are the known ones."""
    widths = sorted({float(width) for width, _ in _KNOWN} | set(map(float, _KNOWN_INTERPOLATOR)))
    shape = dataset.isel(width=[0] * len(widths)).assign_coords(width=widths)
    risk, theta = shape.risk.copy(), shape.interpolator.copy()
    for (width, name), (known, _) in _KNOWN.items():
        risk.loc[{"width": width, "calibration": name}] = known
    for width, known in _KNOWN_INTERPOLATOR.items():
        theta.loc[{"width": float(width)}] = known
    setting = {"num_train": 2000, "dim": 100, "epsilon": 4.0, "clip": 0.5}
    return shape.assign(setting).assign(risk=risk, interpolator=theta)


@pytest.mark.slow
def test_known_values_are_asked_for_at_the_papers_setting_and_can_be_missed(results):
    smoke = _dataset(results, fig03_random_features)
    assert not _known_values(smoke)
    known = _as_in_the_paper(smoke)
    assert [check.holds for check in _known_values(known)] == [True, True]
    wrong = known.assign(risk=known.risk * 1.1, interpolator=known.interpolator * 1.2)
    assert [check.holds for check in _known_values(wrong)] == [False, False]

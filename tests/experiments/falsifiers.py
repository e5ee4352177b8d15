"""For every claim of every saved result: data that do not bear it out.

Each figure has a list of the words by which a claim is known, and a change of which it is false.
"""

import numpy as np
import xarray
from changes import (
    added,
    at,
    by_logarithm,
    constant,
    fact,
    filled,
    scaled,
    tilted,
    turned,
    worst,
)

from experiments.benchmarks.explorer import LIMITS


def _apart_at_the_largest(dataset):
    largest = dataset.dim == dataset.dim[-1]
    return dataset.assign(mean=dataset["mean"] * (1 + 0.2 * largest))


def _constant_band(dataset):
    return dataset.assign(final_std=dataset.final_std * dataset.dim**0.5)


def _called_isotropic(dataset):
    return dataset.sel(condition_number=[2]).assign_coords(condition_number=[1])


def _slow_in_spite_of_steep_descent(dataset):
    steep = {"descent_ratio": dataset.descent_ratio + 1, "mean": dataset["mean"] * 1.5}
    return dataset.assign(steep)


def _beyond_the_cap(dataset):
    factor = xarray.where(dataset.rate > 2 / dataset.gamma, 1.5, 1)
    return dataset.assign(predicted=dataset.predicted * factor)


def _on_the_edge(dataset):
    return dataset.assign(best_is_interior=~dataset.best_is_interior)


def _by_gamma(dataset):
    return dataset.assign(risk=dataset.risk * dataset.gamma**0.02)


def _risk_times_gamma_to(exponent):
    return lambda dataset: dataset.assign(risk=dataset.risk * dataset.gamma**exponent)


def _rising(dataset):
    return dataset.assign(mean=dataset["mean"] * (dataset.num_steps / 1e4) ** 0.1)


def _all_clipped(dataset):
    return dataset.assign(clipped_fraction=1 - dataset.clipped_fraction)


_CLIPPING = {
    "fig01_clipped_moments": [
        ("quadrature", scaled("mu", 1 + 1e-4)),
        ("increase", turned("mu", "ratio")),
        ("decrease", scaled("nu", 1.1)),
        ("peaks", scaled("nu", 1.01)),
        ("AC (41)", scaled("nu", 0.99)),
        ("AC (34)", scaled("nu", 0.9)),
    ],
    "fig02_risk_curves": [
        ("d = 10:", scaled("predicted", 1.1)),
        ("d = 100:", scaled("final_predicted", 1.1)),
        ("d = 1000:", scaled("predicted", 1.1)),
        ("largest gap", scaled("predicted", 1.1)),
        ("largest gap", _apart_at_the_largest),
        ("1/sqrt(d)", _constant_band),
        ("lower <=", turned("bounds", "bound")),
        ("isotropic", scaled("bounds", 1.01, bound=["upper"])),
        ("isotropic", _called_isotropic),
        ("released risks are", scaled("final_predicted", 1.001)),
        ("released risks are", _called_isotropic),
        ("last noise", scaled("jump_predicted", 1.1)),
        ("last noise", scaled("jump_mean", 1.1)),
        ("NumPy", scaled("final_mean", 1.1)),
    ],
    "fig03_clip_and_rate": [
        ("up to the cap", scaled("predicted", 1.1)),
        ("beyond the cap", _beyond_the_cap),
        ("mean relative gap", scaled("mean", 1.03)),
        ("known to 1e-4", scaled("best_risk", 1.001)),
        ("known to 1e-4", scaled("best_rate", 1.05)),
        ("simulated there", scaled("best_mean", 1.05)),
        ("are interior", _on_the_edge),
        ("are interior", scaled("best_rate", 2.1)),
        ("c > 1 costs", scaled("best_mean", 2)),
        ("4/gamma costs", scaled("best_mean", 3)),
        ("like 1/c", turned("predicted", "clip_scale")),
        ("DP-SGD", turned("best_mean", "power")),
        ("30 minutes", fact("sweep_seconds", 2000.0)),
    ],
    "fig04_schedules": [
        ("every mean", scaled("predicted", 1.1)),
        ("known to 1e-4", scaled("predicted", 1.001)),
        ("below the cap", scaled("rate", 2)),
        ("every faster decay is worse", turned("mean", "power")),
        ("1.086", turned("mean", "power")),
        ("1.086", scaled("predicted", 1.01, power=[0.5])),
        ("alpha = 1 is worse", scaled("mean", 1.3, power=[1.0])),
        ("alpha = 1 is worse", scaled("predicted", 1.1, power=[1.0])),
        ("within 5%", scaled("mean", 1.1, power=[2.0])),
        ("does not vanish", scaled("clip_scale", 0.9)),
    ],
    "constant_clip": [
        ("every simulated mean", scaled("predicted", 1.1)),
        ("is the same", _rising),
        ("adaptive root:", turned("predicted", "num_steps")),
        ("fixed root:", turned("predicted", "num_steps")),
        ("fixed log:", turned("predicted", "num_steps")),
        ("is worse", scaled("mean", 4, rule=["constant"])),
        ("1 gradient in 1000", _all_clipped),
    ],
    "small_gamma": [
        *(
            (f"alpha = {power:g}: in the {term} term", by_logarithm(0.05, name))
            for power in (0, 0.5, 1, 2, 4)
            for term, name in (("gamma", "risk"), ("privacy", "privacy_part"))
        ),
        ("gamma has the exponent 1", _by_gamma),
        ("largest risk", turned("best_risk", "power")),
        ("local exponent", by_logarithm(0.3, "best_risk")),
        ("R/gamma = A", by_logarithm(0.3, "best_risk")),
    ],
    "power_law_spectra": [
        ("one constant", _risk_times_gamma_to(-2)),
        ("exponent of gamma", _risk_times_gamma_to(0.5)),
        ("Reduced agrees", scaled("simulated", 2)),
    ],
    "real_tables": [
        ("Gaussian rows", scaled("predicted", 1.5)),
        ("early risk", _slow_in_spite_of_steep_descent),
        ("factor 1.5", scaled("final_predicted", 3)),
        ("random scale descend more slowly", scaled("scaled_predicted", 0.5)),
    ],
}


def _without_a_peak(dataset):
    return dataset.assign(interpolator=dataset.interpolator.clip(max=0.6))


def _with_a_peak(dataset):
    nearest = abs(np.log(dataset.width / dataset.num_train)).where(np.isfinite(dataset.width))
    return dataset.assign(risk=dataset.risk + 2 * (dataset.width == nearest.idxmin("width")))


def _swapped(dataset):
    """The calibrations, each called by the other's name."""
    swapped = dataset.risk.sel(calibration=["exact", "published"])
    return dataset.assign(risk=dataset.risk.copy(data=swapped))


def _not_at_its_limit(dataset):
    return dataset.assign(risk=dataset.risk + 0.3 * np.isinf(dataset.width))


def _shifted_with_width(dataset):
    """Curves against the number of steps, as if that were the axis."""
    rolled = dataset.risk.copy()
    for count, width in enumerate(dataset.width.data[1:-1]):
        rolled.loc[{"width": width}] = dataset.risk.sel(width=width).roll(time=2 * count)
    return dataset.assign(risk=rolled)


def _tuned_elsewhere(dataset):
    """At infinite width the largest clip norms are as good as the smallest elsewhere."""
    last = dataset.tuned_width == dataset.tuned_width[-1]
    flipped = dataset.tuned_risk.copy(data=dataset.tuned_risk[:, :, ::-1].data)
    flipped = flipped.isel(tuned_clip=slice(None, None, -1)).assign_coords(
        tuned_clip=dataset.tuned_clip
    )
    return dataset.assign(tuned_risk=dataset.tuned_risk.where(~last, flipped))


def _as_dear_at_any_budget(dataset):
    # The same excess risk everywhere, up to a wiggle that leaves the fit an error.
    wiggle = 0.001 * (dataset.num_train % 3)
    return dataset.assign(risk=dataset.interpolator + 0.1 + wiggle + 0 * dataset.risk)


def _narrowest_is_late(dataset):
    """The narrowest network learns nothing but in its last steps."""
    late = (dataset.curve == dataset.curve[0]) & (dataset.time < dataset.time[-1])
    return dataset.assign(
        error=xarray.where(late, 0.9, dataset["error"]).transpose(*dataset["error"].dims)
    )


def _one_clip_norm_is_best(dataset):
    best = dataset.heat.min("heat_time").idxmin("clip_norm")
    return dataset.assign(heat=dataset.heat.where(dataset.clip_norm == best, 0.9))


def _rising_at_the_end(name, along):
    return added(name, lambda dataset: 0.5 * (dataset[along] == dataset[along][-1]))


_FREE = {
    "fig01_mnist_width": [
        ("above every private", scaled("gd", 0.5)),
        ("larger epsilon", turned("accuracy", "epsilon")),
        ("more parameters help", turned("accuracy", "width")),
        ("width is free", at("accuracy", 0.5, width=-1)),
        ("exact calibration", turned("accuracy", "calibration")),
        ("Poisson", scaled("poisson", 0.5)),
    ],
    "fig01_poisson": [
        ("more parameters help", turned("accuracy", "width")),
        ("width is free", at("accuracy", 0.5, width=-1)),
        ("larger epsilon", turned("accuracy", "epsilon")),
        ("published plateaus", scaled("accuracy", 0.97)),
    ],
    "fig02_mnist_samples": [
        ("dead pixels", constant("gd", "scaling")),
        ("no more than the share", scaled("lit_share", 0)),
        ("less and less", at("accuracy", 0.2, num_train=-1)),
        ("more samples", constant("accuracy", "num_train")),
        ("larger epsilon", turned("accuracy", "epsilon")),
        ("both scalings agree", at("gd", 0.9, scaling=0)),
    ],
    "fig03_random_features": [
        ("theta* peaks", _without_a_peak),
        ("no peak", _with_a_peak),
        ("infinite-width limit", _not_at_its_limit),
        ("better at every p", _swapped),
        ("curves of all p", _shifted_with_width),
        ("number of steps the same", constant("risk", "time")),
        ("best tau p/d is longer", _swapped),
        ("most gradients", scaled("clipped", 0.5)),
        ("from 8 steps", added("step_risk", lambda dataset: 0.001 * dataset.step_count)),
        ("nothing is learnt", turned("heat_risk", "heat_time")),
        ("valley", turned("heat_risk", "heat_time")),
        ("best cells clip", scaled("heat_clipped", 0)),
        ("tuned at any p", _tuned_elsewhere),
        ("least errors", scaled("risk", 1.1)),
        ("same study's", scaled("interpolator", 1.2)),
        ("minutes", filled("seconds", 1.2 * 600, part="curves")),
    ],
    "fig04_mnist_hyperparameters": [
        ("optimal T falls", constant("error", "curve")),
        ("region (4)", turned("heat", "heat_time")),
        ("region (1)", at("heat", 3, clip_norm=-1, heat_time=-1)),
        ("minimum in between", constant("error", "time")),
        ("of one another", _narrowest_is_late),
        ("exact calibration", at("error", 3, curve=-1)),
        ("range of clip norms", _one_clip_norm_is_best),
        ("is constant", turned("heat", "heat_time")),
        ("far above", at("heat", 0, clip_norm=-1)),
        ("have not learnt", at("heat", 0, clip_norm=0, heat_time=0)),
    ],
    "excess_risk": [
        ("first term alone", scaled("risk", 1.2)),
        ("first term alone", _swapped),
        ("least constants", scaled("risk", 1.4)),
        ("rises with epsilon", _rising_at_the_end("risk", "epsilon")),
        ("rises with n", _rising_at_the_end("risk", "num_train")),
        ("never worse", _swapped),
        ("a third of that", _rising_at_the_end("risk", "epsilon")),
        ("two standard errors (published)", _as_dear_at_any_budget),
        ("two standard errors (exact)", _as_dear_at_any_budget),
        (
            "d = 40: theta* is level",
            added("interpolator", lambda dataset: 0.5 * (dataset.num_train == 800)),
        ),
        ("d = 80: theta* is level", _rising_at_the_end("interpolator", "num_train")),
        ("cubics", scaled("interpolator", 0.5)),
        ("that of infinite width", scaled("finite_risk", 1.5)),
        ("worse than at infinite width", scaled("finite_interpolator", 0.5)),
    ],
    "theorem_rates": [
        ("Lemma 6.5", tilted("row_shift", "dim", 0.5)),
        ("Lemma C.3", tilted("above", "dim", -1)),
        ("Lemma 6.4", tilted("distance", "dim", 2.1)),
        ("free Brownian motion", scaled("noise", 5)),
        ("log^10 n", tilted("noise", "dim", 1)),
        ("predicting nothing", scaled("theorem_risk", 0.004)),
    ],
}

_RP, _RFF = "RP, certified", "RFF, certified"
_CENTRED = "RP, certified with intercept"


def _learners(prefix, factor):
    """The errors of all learners whose names begin so, times a factor."""

    def change(dataset):
        named = dataset.learner.str.startswith(prefix)
        error = dataset["error"] * xarray.where(named, factor, 1.0)
        return dataset.assign(error=error.transpose(*dataset["error"].dims))

    return change


_KERNELS = {
    "fig01_synthetic": [
        ("not borne out", scaled("error", 0.6, learner=["RP, published"])),
        ("within 15% of random", scaled("error", 1.25, learner=[_RFF])),
        ("two thirds", scaled("error", 3, learner=[_RP])),
        ("negative eigenvalues", turned("error", "form")),
        ("private intercept", scaled("error", 2, learner=[_CENTRED])),
        ("loses at most a quarter", scaled("data_free", 2)),
        ("is better than the mean", scaled("constant", 0.5)),
        ("without noise", scaled("noiseless", 0.4)),
        ("without noise", scaled("noiseless", 3)),
        ("within 10% in the geometric", scaled("error", 1.3, learner=[_RFF])),
        ("agrees with", scaled("error", 2)),
        ("does not beat", scaled("constant", 1.3)),
    ],
    "fig02_projection_dimension": [
        ("the best M is smaller", turned("error", "epsilon")),
        ("half as much", constant("error", "num_projections")),
        ("pays little", scaled("error", 3, learner=[_RP], num_projections=[1000])),
        (
            "steepest rise",
            scaled("error", 2.7, learner=["RP, published"], num_projections=[100]),
        ),
        ("resonances", turned("fixed_error", "form")),
    ],
    "fig03_year_prediction": [
        ("not reproduced on these rows", scaled("error", 0.75, learner=["RP, published"])),
        ("within 5% of each other", scaled("error", 1.1, learner=[_RFF])),
        ("lose to the mean label at", scaled("constant", 1.3)),
        ("smaller mean error", scaled("error", 1.3, learner=[_RFF])),
        ("an intercept makes", scaled("error", 3, learner=[_CENTRED])),
        ("loses at most half", scaled("data_free", 3)),
        ("public units cost", scaled("noiseless", 1.5)),
    ],
    "fig08_year_projection_dimension": [
        ("pays less", scaled("error", 5, learner=[_RP], num_projections=[1000])),
        ("resonances", turned("fixed_error", "form")),
    ],
    "uci_tables": [
        ("Algorithm 1 at the same rule", _learners("certified", 20)),
        ("Algorithm 3 at the same rule", _learners("certified", 20)),
        ("output perturbation", _learners("certified", 20)),
        ("better than the mean label", _learners("certified", 20)),
        ("larger class", _learners("certified", 20)),
    ],
    "rates": [
        ("outside the noise's spectrum", scaled("outside", 2.0)),
        (
            "random projection falls faster",
            tilted("squared", "level", 0.4, learner="random projection"),
        ),
        ("worse than the tuned ones", scaled("squared", 0.45, learner=["Theorem 11"])),
        ("fall no faster", tilted("squared", "level", -1.0, learner="Fourier features")),
        (
            "objective perturbation with every feature",
            tilted("logistic", "logistic_level", 0.4, objective="no projection"),
        ),
        ("functional perturbation", scaled("logistic", 0.4, objective=["functional"])),
        ("do no harm", tilted("by_count", "count", 1.0)),
        ("beta < 1", tilted("power_predicted", "power_level", 0.1)),
        ("Appendix B", tilted("by_dim", "dim", 0.3)),
        ("are no means", scaled("squared_predicted", 3)),
        ("are no means", scaled("count_predicted", 0.5)),
        ("exponents of n without", tilted("by_samples", "samples", 0.1)),
        ("exponents of n without", scaled("by_samples", 1.5)),
        ("exponents of n at a fixed", tilted("by_budget", "budget_samples", 0.2)),
    ],
    "basis_selection": [
        ("coefficients of beta", tilted("mean_square", "mode", 0.1)),
        ("distance to the projected space", scaled("error", 2.0)),
        ("as many leading eigenfunctions", tilted("error", "count", -3.0)),
    ],
}

_DEFAULT = {"optimiser": "default"}
_SECOND_ORDER = {"optimiser": "Levenberg-Marquardt"}
_FULL = ["all layers"]


def _leaky(dataset):
    runs = dataset.last_iterate.copy(data=np.full(dataset.last_iterate.shape, 0.01))
    return dataset.assign(last_iterate=runs)


def _all_alike(dataset):
    return dataset.assign(all_iterates=dataset.last_iterate + 0.01)


def _flat(dataset):
    first = dataset.error_by_clip.isel(clip_share=0, drop=True)
    return dataset.assign(error_by_clip=first.broadcast_like(dataset.error_by_clip))


_RECONSTRUCTION = {
    "fig01_cifar_thresholds": [
        ("labels are fitted once", turned("train_loss", "num_features")),
        ("labels are fitted once", filled("train_loss", 1e-5)),
        ("between n and d n / 2", scaled("error", 0.5)),
        ("from 3 d n on the images", turned("error", "num_features")),
        ("a loss of zero", scaled("error", 0.3)),
        ("a loss of zero", filled("converged", 0)),
        ("the span residual falls", filled("residual", 0.3)),
        ("the same attack on permuted", scaled("control", 0.8)),
        ("every image", filled("gallery_errors", 0.2)),
        ("scaled as published", fact("published_floor", 0.0)),
    ],
    "fig03_sphere_thresholds": [
        ("labels are fitted once", added("train_loss", 0.1)),
        ("nothing is found though", filled("error", 0.1, **_DEFAULT)),
        ("do not determine", filled("converged", 0, **_SECOND_ORDER)),
        ("do not determine", filled("error", 0.1, **_SECOND_ORDER)),
        ("dn on the rows are found", filled("error", 1.0, **_DEFAULT)),
        ("is the data's", filled("error", 1.0)),
        ("passes half of chance", scaled("num_features", 4)),
        ("more of the runs", filled("converged", 1, optimiser="published")),
        ("span residual", filled("residual", 1.0)),
    ],
    "fig04_signs": [
        ("tanh: the truth with any row", turned("negated_loss", "activation")),
        ("ReLU: negating any", turned("negated_loss", "activation")),
        ("ReLU + tanh: negating any", filled("negated_loss", 1e-5)),
        ("tanh: where the loss converged the images", filled("signs", 1.0)),
        ("tanh: where the loss converged the images", scaled("error_with_flips", 11)),
        ("ReLU: where the loss", turned("signs", "activation")),
        ("ReLU + tanh: where the loss", filled("converged", 0)),
        ("no run whose loss reached", turned("few_signs", "activation")),
        ("no run whose loss reached", filled("few_loss", 1e-3, optimiser="published")),
        ("no run whose loss reached", filled("few_loss", 1e-9)),
        ("where the loss converged as many", filled("few_signs", 1.0)),
        ("does end with negated images", filled("few_signs", 1.0)),
        ("does end with negated images", filled("few_loss", 1e-7)),
        ("ends with no negated image", filled("few_signs", -1.0)),
    ],
    "fig05_networks": [
        ("fits its labels", scaled("train_loss", 1.2)),
        ("two-layer: nothing is found", turned("error", "width")),
        ("residual: nothing is found", turned("error", "width")),
        ("two-layer, last layer trained alone", turned("error", "width")),
        ("residual, last layer trained alone", turned("error", "width")),
        ("two-layer, all layers trained: the loss", turned("true_loss", "training")),
        ("residual, all layers trained: the loss", scaled("true_loss", 1e-4)),
        ("two-layer, all layers trained: every", scaled("error", 50, training=_FULL)),
        ("two-layer, all layers trained: every", turned("error", "width")),
        ("residual, all layers trained: every", scaled("error", 1.5, training=_FULL)),
        ("residual, all layers trained: every", scaled("error", 0.5, training=_FULL)),
        ("between any two runs", turned("true_loss", "width")),
        ("falls with the error", turned("residual", "width")),
    ],
    "fig06_multiclass_images": [
        ("fit the labels", scaled("train_loss", 1.2)),
        ("gives every image away", worst("errors", 0.06, training="last layer")),
        ("not exactly", scaled("errors", 25, training=_FULL)),
        ("not exactly", scaled("errors", 0, training=_FULL)),
        ("is not zero", scaled("true_loss", 2e-4)),
        ("is not zero", scaled("loss", 3e-4)),
    ],
    "regenerated": [
        ("the images are found without", filled("row_errors", 0.3)),
        ("one evaluation of loss", scaled("temporary", 2)),
    ],
    "known_rows": [
        ("the last is found", filled("error", 0.5, known="all but one")),
        ("it is not", filled("error", 0.01, known="all but one")),
        ("stay unknown", filled("error", 0.1, known="none")),
        ("the count d + n - 1", filled("error", 0.001, activation="relu")),
    ],
    "under_privacy": [
        ("linearised problem", scaled("near_by_epsilon", 1.6)),
        ("free constant", scaled("near_by_law", 2.5)),
        ("no attack is below", scaled("bound", 1.4)),
        ("other rows", scaled("informed_by_epsilon", 2)),
        ("chance", scaled("error_by_epsilon", 0.5)),
        ("early stopping", filled("last_iterate", 0.012, step_epsilon=np.inf, num_steps=1)),
        ("longest training leaks less", _leaky),
        ("principal component", _all_alike),
        ("below p = d n", scaled("error_by_width", 0.5)),
        ("above every gradient", _flat),
    ],
    "private_images": [
        ("without noise", worst("row_error", 0.024, error=0)),
        ("smallest error", scaled("row_error", 2)),
        ("errors grow", scaled("row_error", 0.5)),
        ("the others helps", scaled("informed_row_error", 1.8)),
    ],
}

_SCIPY = [f"SciPy, {method}" for method in ("RK45", "DOP853", "LSODA")]
_MODELS = [*(f"MLP 784-1000-10, batch {n}" for n in (256, 1024)), "CNN", "attention"]
_BOUNDS = {
    model: [f"{rest} at most {bound}" for bound in (1.2, 1.5)]
    for model, rest in zip(
        _MODELS, (":", ":", ", batch 256:", ", batch 64 x 32 tokens:"), strict=True
    )
}


def _slow(factor, name):
    return scaled("seconds", factor, candidate=[name])


# The kind of a page, one of its cases, and what takes the time after a slider was moved.
_MOVES = [
    ("stream", "stream, equal eigenvalues", ("curve", "page, server", "page, browser")),
    ("rows", "rows, n = 500, p = 50, T = 50", ("curve", "page, server")),
]

_SPEED = {
    "simulators": [
        ("at most 1.25 times", _slow(2, "Iterates")),
        ("at least 2.5 times", _slow(1.4, "Iterates")),
        ("at most twice", _slow(3, "Reduced")),
        ("the same time at d", _slow(1.4, "Reduced, wide")),
        ("d / 10 times faster", _slow(7, "Reduced")),
    ],
    "function_space": [
        ("a step of FunctionSpace", scaled("seconds", 5)),
        ("its time at the larger width", _slow(2, "FunctionSpace, p = 40000")),
        ("10 times faster than Iterates", _slow(0.3, "Iterates, p = 40000")),
    ],
    "ode_grid": [
        ("alpha = 0:", scaled("seconds", 0.03, candidate=_SCIPY)),
        ("alpha = 0:", scaled("error", 7e3, candidate=["jaxdp, in batches of 100"])),
        ("alpha = 0.5:", scaled("seconds", 0.008, candidate=_SCIPY)),
        ("alpha = 0.5:", scaled("error", 10, candidate=["jaxdp, in batches of 100"])),
    ],
    "per_sample_clipping": [
        *((f"{model}{rest}", _slow(5, "jaxdp")) for model in _MODELS for rest in _BOUNDS[model]),
        *(
            (f"{model}: less temporary memory", scaled("temporary_bytes", 150, candidate=["jaxdp"]))
            for model in _MODELS[:2]
        ),
        ("10 times faster than vmap", _slow(3, "jaxdp")),
        ("agrees with gradients", worst("disagreement", 1.2e-4)),
    ],
    "private_kernel_ridge": [
        ("less than 10 s", scaled("seconds", 3.5)),
        ("never holds", scaled("bytes", 3.5)),
        ("published noise", scaled("noise_ratio", 1 / 3)),
        ("joint Cholesky", scaled("joint_seconds", 0.003)),
    ],
    "reconstruction": [
        ("every row is found", filled("error", 1.0, candidate="CurvatureScaledMomentum")),
        ("every row is found", scaled("passes", 11)),
        ("each of these attacks", added("seconds", 21)),
        ("from the same starts", filled("error", 0.0, candidate="MomentumDescent, as published")),
        ("from the same starts", filled("error", 0.0, candidate="MomentumDescent, for longer")),
        (
            "from the same starts",
            scaled("seconds", 0.5, candidate=["MomentumDescent, as published"]),
        ),
        ("from the same starts", scaled("seconds", 0.5, candidate=["MomentumDescent, for longer"])),
        ("is solved as well", added("large_error", 1)),
        ("a pass over regenerated", scaled("pass_bytes", 2)),
    ],
    "planning": [
        ("no worse than the mean search", scaled("planned_fresh", 1.5)),
        ("reports less than", added("reported", 0.2)),
        ("what the plan predicts", scaled("predicted", 1.1)),
    ],
    "secret_noise": [
        ("normals take less", filled("draw", 1.2)),
        ("a step", filled("noise_alone", 0.6)),
    ],
    "explorer": [
        *(
            (
                f"{kind}: {what}",
                filled("seconds", 1.2 * LIMITS[kind], case=case, what=what, slider="clip"),
            )
            for kind, case, parts in _MOVES
            for what in parts
        ),
    ],
}


def _noise_that_costs_nothing(dataset):
    """Runs that end where those without noise are predicted to end."""
    ends = {name: 0 * dataset[name] + dataset[f"noiseless_{name}"] for name in ("loss", "accuracy")}
    return dataset.assign(
        {name: values.transpose(*dataset[name].dims) for name, values in ends.items()}
    )


_EVERYDAY = {
    "mnist_classification": [
        ("the predicted loss is within 2", scaled("predicted_loss", 1.3)),
        ("the predicted accuracy is within .01", scaled("predicted_accuracy", 0.8)),
        ("the predicted loss is within 12", scaled("predicted_loss", 1.6)),
        ("the predicted accuracy is within .02", scaled("predicted_accuracy", 0.8)),
        ("without noise the predicted loss", _noise_that_costs_nothing),
        ("without noise the predicted accuracy", _noise_that_costs_nothing),
        ("a larger epsilon", turned("predicted_accuracy", "epsilon")),
        ("a body that was trained", turned("accuracy", "kind")),
    ],
    "steps_batches_clip": [
        ("within", scaled("accuracy", 0.9)),
        ("larger batches", turned("predicted", "sampling_rate")),
        ("with the fewest records", turned("predicted", "sampling_rate")),
        ("the largest clip norm", turned("predicted", "clip_norm")),
    ],
    "correlated_noise": [
        ("Volterra system", scaled("predicted", 1.3)),
        ("cost rho-GDP", scaled("mu", 1.01)),
        ("the optimal strategy is ahead", scaled("risk", 1.2, scheme=["optimal"])),
        ("no worse than independent", scaled("risk", 3, scheme=["square root"])),
        ("less predicted risk than the best", scaled("last_iterate", 0.5)),
        ("on both sides", scaled("last_iterate_hyperbolic", 0.5)),
        ("few batches", turned("risk", "num_steps")),
        ("full batches have less", scaled("full", 1.3)),
        ("every Toeplitz", scaled("toeplitz", 0.5, family=["1 buffer"])),
    ],
    "multi_pass": [
        ("coupled ODE", scaled("one_pass_predicted", 1.2)),
        ("the closure", scaled("full_predicted", 1.3)),
        ("own accounts", scaled("mu_full", 1.01)),
        ("smaller simulated risk", scaled("full", 5)),
        ("three times", scaled("one_pass", 0.5)),
        ("is least", scaled("one_pass", 2, gamma=[0.01])),
        ("no private run", scaled("least_squares", 1.4)),
    ],
}

# Some goals of benchmarks are missed by what was measured; it is changed to meet them first.
MET = {
    "ode_grid": scaled("seconds", 100, candidate=_SCIPY),
    "per_sample_clipping": _slow(0.9, "jaxdp"),
}

FALSIFIERS = _CLIPPING | _FREE | _KERNELS | _RECONSTRUCTION | _EVERYDAY | _SPEED

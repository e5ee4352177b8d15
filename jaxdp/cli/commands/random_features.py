"""`jaxdp compare --num-features P`: DP-GD on random features, in simulation and in theory."""

import argparse
import dataclasses
import warnings

import jaxdp
from jaxdp.cli import output
from jaxdp.cli.values import check_sizes, check_steps
from jaxdp.comparison import average, plot_comparison
from jaxdp.core.checks import require_count

_DEFAULTS = {
    "dim": 40,
    "num_train": 800,
    "num_test": 500,
    "epsilon": 4.0,
    "delta": 1e-5,
    "clip_scale": 0.5,
    "duration": 4.3,
    "num_steps": 40,
}
_SIMULATORS = {
    "simulated": jaxdp.FunctionSpace(),
    "clipped SDE": jaxdp.ClippedSDE(),
    "OU SDE": jaxdp.OrnsteinUhlenbeckSDE(),
}
_THEORIES = (
    jaxdp.GaussianClosure(),
    jaxdp.OrnsteinUhlenbeck(),
    jaxdp.UnclippedRecursion(),
    jaxdp.GradientFlow(),
)
_FOREIGN = ("label_noise", "condition_number", "peak", "power", "rho")
_FOREIGN += ("data", "target", "drop", "drop_constant", "header")


def compare(options: argparse.Namespace) -> None:
    """The algorithm, both diffusions, and every theory on one problem."""
    width, is_wide = _settle(options), options.num_features is None
    algorithm = jaxdp.DPGD.calibrated(
        options.epsilon,
        options.delta,
        # In units that do not see the width.
        learning_rate=options.duration * options.dim / (width * options.num_steps),
        clip_norm=options.clip_scale * width**0.5,
        num_steps=options.num_steps,
    )
    release = dataclasses.replace(algorithm.release(), num_records=options.num_train)
    cost = jaxdp.account(release, delta=options.delta)
    data_key, *keys = output.seeded_keys(options, 4)
    files = output.prepared_files(options, output.COMPARE_FILES)
    problem = jaxdp.RandomFeatures.sample(
        options.num_train, options.num_test, options.dim, options.num_features, key=data_key
    )
    reduced = problem.reduced()
    simulated, *diffusions = (
        output.simulate_named(name, reduced, algorithm, key, options.num_runs, simulator)
        for (name, simulator), key in zip(_SIMULATORS.items(), keys, strict=True)
    )
    predictions = []
    with output.progress_bar("theory") as progress:
        for theory in _THEORIES:
            progress(len(predictions) / len(_THEORIES))
            predictions.append(jaxdp.predict(reduced, algorithm, theory=theory).check())
    with warnings.catch_warnings():
        # The table says it too.
        warnings.simplefilter("ignore", UserWarning)
        comparison = jaxdp.compare(simulated, *predictions, *map(average, diffusions))
    shown = "\\infty" if is_wide else str(width)
    figure = plot_comparison(
        simulated,
        *predictions,
        beside=diffusions,
        title=f"$n$ = {options.num_train}, $d$ = {options.dim}, $p$ = ${shown}$",
        time_label="time $\\eta t$",
        risk_label="test error",
    )
    interpolated = problem.interpolator_risk()
    clipped = float(simulated.observables["clipped_fraction"][:, -1].mean())
    numbers = {
        "problem": "random features",
        "dim": options.dim,
        "num_steps": options.num_steps,
        "num_features": "inf" if is_wide else width,
        "interpolator_risk": interpolated,
        "clipped_fraction": clipped,
    }
    heading = [
        f"random features: n = {options.num_train}, d = {options.dim}, "
        f"{'infinite width' if is_wide else f'p = {width}'}; test errors",
        f"without privacy: {interpolated:.5f} (interpolation)",
        f"{clipped:.0%} of the gradients are clipped",
    ]
    output.finish_comparison(options, files, comparison, cost, figure, numbers, heading)


def _settle(options: argparse.Namespace) -> int:
    """Fill in the defaults and refuse what cannot be run; the width, as 1 where it is infinite."""
    output.settle(options, _DEFAULTS, dict.fromkeys(_FOREIGN, "does not go with --num-features"))
    finite = () if options.num_features is None else ("num_features",)
    for name in ("num_train", "num_test", "dim", "num_steps", *finite):
        require_count(name, getattr(options, name))
    width, rows = options.num_features or 1, options.num_train + options.num_test
    check_sizes(
        the_rows=(rows, options.dim),
        the_weights=(width, options.dim),
        the_features=(rows, width),
        the_kernel=(rows, options.num_train),
        all_runs=(rows, options.num_runs),
    )
    check_steps(options.num_steps)
    return width

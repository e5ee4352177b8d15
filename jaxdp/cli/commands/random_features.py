"""`jaxdp compare --num-features P`: DP-GD on random features, in simulation and in theory."""

import argparse
import warnings

from jaxdp.cli.output import (
    COMPARE_FILES,
    seeded_keys,
    settle,
    simulate_named,
    write,
)
from jaxdp.cli.sizes import check_sizes, check_steps

_DEFAULTS = {
    "dim": 40,
    "num_train": 800,
    "num_test": 500,
    "epsilon": 4.0,
    "clip_scale": 0.5,
    "duration": 4.3,
    "num_steps": 40,
}
_OF_LINEAR_REGRESSION = (
    "label_noise",
    "condition_number",
    "peak",
    "power",
    "rho",
    "data",
    "target",
    "drop",
    "drop_constant",
    "header",
)


def compare(options: argparse.Namespace) -> None:
    """The algorithm, both diffusions, and every theory on one problem."""
    import jaxdp
    from jaxdp.comparison import average
    from jaxdp.comparison.picture import plot_comparison
    from jaxdp.core.checks import require_count

    settle(
        options,
        _DEFAULTS,
        {name: "does not go with --num-features" for name in _OF_LINEAR_REGRESSION},
    )
    for name in ("num_train", "num_test", "dim", "num_steps", "num_features"):
        size = getattr(options, name)
        if size is not None:
            require_count(name, size)
    settle(options, {"delta": 1 / options.num_train}, {})
    width, rows = options.num_features or 1, options.num_train + options.num_test
    check_sizes(
        the_rows=(rows, options.dim),
        the_weights=(width, options.dim),
        the_features=(rows, width),
        the_kernel=(rows, options.num_train),
        all_runs=(rows, options.num_runs),
    )
    check_steps(options.num_steps)
    algorithm = jaxdp.DPGD.calibrated(
        options.epsilon,
        options.delta,
        # In units that do not see the width.
        learning_rate=options.duration * options.dim / (width * options.num_steps),
        clip_norm=options.clip_scale * width**0.5,
        num_steps=options.num_steps,
    )
    cost = jaxdp.account(algorithm, delta=options.delta)
    data_key, *keys = seeded_keys(options, 4, *COMPARE_FILES)
    problem = jaxdp.RandomFeatures.sample(
        options.num_train, options.num_test, options.dim, options.num_features, key=data_key
    )
    reduced = problem.reduced()
    simulated, *diffusions = (
        simulate_named(name, reduced, algorithm, key, options.num_runs, simulator)
        for name, key, simulator in [
            ("simulated", keys[0], jaxdp.FunctionSpace()),
            ("clipped SDE", keys[1], jaxdp.ClippedSDE()),
            ("OU SDE", keys[2], jaxdp.OrnsteinUhlenbeckSDE()),
        ]
    )
    theories = (
        jaxdp.GaussianClosure(),
        jaxdp.OrnsteinUhlenbeck(),
        jaxdp.UnclippedRecursion(),
        jaxdp.GradientFlow(),
    )
    predictions = [jaxdp.predict(reduced, algorithm, theory=theory).check() for theory in theories]
    with warnings.catch_warnings():
        # The table says it too.
        warnings.simplefilter("ignore", UserWarning)
        comparison = jaxdp.compare(simulated, *predictions, *map(average, diffusions))
    shown = "\\infty" if options.num_features is None else str(options.num_features)
    title = f"$n$ = {options.num_train}, $d$ = {options.dim}, $p$ = ${shown}$"
    figure = plot_comparison(
        simulated,
        *predictions,
        beside=diffusions,
        title=title,
        time_label="time $\\eta t$",
        risk_label="test error",
    )
    interpolated = problem.interpolator_risk()
    numbers = {
        "problem": "random features",
        "dim": options.dim,
        "num_steps": options.num_steps,
        "num_features": "inf" if options.num_features is None else options.num_features,
        "interpolator_risk": interpolated,
        "clipped_fraction": float(simulated.observables["clipped_fraction"][:, -1].mean()),
    }
    width_name = "infinite width" if options.num_features is None else f"p = {width}"
    heading = [
        f"random features: n = {options.num_train}, d = {options.dim}, {width_name}; test errors",
        f"without privacy: {interpolated:.5f} (interpolation)",
        f"{numbers['clipped_fraction']:.0%} of the gradients are clipped",
    ]
    write(options, comparison, cost, figure, numbers, heading)

"""The Python that makes the page's picture: text that runs as it is."""

from typing import Any

from jaxdp.explorer.studies.fields import Values
from jaxdp.explorer.studies.schedules import schedule_text

_PICTURE = """\
import matplotlib.pyplot as plt

figure, axes = plt.subplots(layout="constrained")
axes.plot(predicted.time, predicted.risk, color="black", label=predicted.label)
{band}{runs}axes.set_xlabel("{time_label}")
axes.set_ylabel("{risk_label}")
axes.legend(frameon=False)
figure.savefig("explore.png", dpi=200)
"""
_BAND = """\
axes.fill_between(
    predicted.time,
    predicted.risk - band.std,
    predicted.risk + band.std,
    color="0.85",
    label="one standard deviation of single runs, predicted",
)
"""
_RUNS = """\
mean = simulated.risk.mean(axis=0)
error = simulated.risk.std(axis=0, ddof=1) / len(simulated.risk) ** 0.5
axes.plot(simulated.time, mean, color="#0072B2", label="simulated, mean and standard error")
axes.fill_between(simulated.time, mean - error, mean + error, color="#0072B2", alpha=0.3)
"""


def stream_text(values: Values, num_runs: int | None, *, seed: int, has_band: bool) -> str:
    """Of linear regression on a stream."""
    is_alone = values["batch_size"] == 1
    theory = "CoupledODE" if is_alone else "DiscreteRecursion"
    if values["budget"] == "rho":
        made, budget = "jaxdp.OnePassDPSGD", f"    rho={values['rho']!r},"
    else:
        made = "jaxdp.OnePassDPSGD.calibrated"
        budget = f"    epsilon={values['epsilon']!r},\n    delta={values['delta']!r},"
    lines = [
        "import jax",
        "import jaxdp",
        *(["import jaxdp.explorer"] if has_band else []),
        "",
        "problem = jaxdp.LinearRegression.power_law(",
        f"    {values['dim']},",
        f"    condition_number={values['condition_number']!r},",
        f"    label_noise={values['label_noise']!r},",
        f"    initial_risk={values['initial_risk']!r},",
        ")",
        f"algorithm = {made}(",
        budget,
        f"    learning_rate={schedule_text(values, values['peak'])},",
        f"    clip_scale={values['clip_scale']!r},",
        f"    num_steps={values['num_samples'] // values['batch_size']},",
        f"    batch_size={values['batch_size']},",
        ")",
        f"predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.{theory}())",
        *(["band = jaxdp.explorer.spread(problem, algorithm)"] if has_band else []),
    ]
    return _finished(
        lines,
        values,
        num_runs,
        seed=seed,
        band=_BAND if has_band else "",
        labels=("time $k/K$", "excess risk $R$"),
    )


def rows_text(
    values: Values, num_runs: int | None, *, seed: int, noise_multiplier: float, test_rows: int
) -> str:
    """Of synthetic rows.

    Args:
        values: the settings.
        num_runs: of the simulation; None for none.
        seed: of the simulation.
        noise_multiplier: that was found for the budget.
        test_rows: how many there are.
    """
    n, p = values["num_rows"], values["num_features"]
    optimiser = optimiser_text(values)
    is_full = values["sampling_rate"] == 1
    sampler = (
        f"ShuffledEpochs({n}, {n})"
        if is_full
        else f"PoissonSampler({n}, {values['sampling_rate']!r})"
    )
    has_band = values["optimiser"] != "adam"
    closure = "rank=0, spread_rank=0" if has_band else ""
    lines = [
        *(["import functools", ""] if "functools" in optimiser else []),
        "import jax",
        "import optax",
        "",
        "import jaxdp",
        "",
        f"n, p = {n}, {p}",
        "keys = jax.random.split(jax.random.key(1), 3)",
        f"features = jax.random.normal(keys[0], (n + {test_rows}, p)) / p**0.5",
        "target = jax.random.normal(keys[1], (p,))",
        f"noise = {values['label_noise']!r} * jax.random.normal(keys[2], (n + {test_rows},))",
        "labels = features @ target + noise",
        "problem = jaxdp.FixedFeatures.from_arrays(",
        "    features[:n], labels[:n], features[n:], labels[n:]",
        ")",
        "algorithm = jaxdp.PrivateOptimiser(",
        f"    {optimiser},",
        f"    learning_rate={schedule_text(values, values['learning_rate'])},",
        f"    clip_norm={values['clip_norm']!r},",
        f"    noise_multiplier={noise_multiplier!r},",
        f"    num_steps={values['num_steps']},",
        f"    sampler=jaxdp.privacy.{sampler},",
        ")",
        f"theory = jaxdp.GaussianClosure({closure})",
        "predicted = band = jaxdp.predict(problem, algorithm, theory=theory)",
    ]
    return _finished(
        lines, values, num_runs, seed=seed, band=_BAND, labels=("epochs", "test error")
    )


def optimiser_text(values: Values) -> str:
    """The factory of an optimiser as Python."""
    if values["optimiser"] in ("sgd", "adam"):
        return f"optax.{values['optimiser']}"
    nesterov = ", nesterov=True" if values["optimiser"] == "nesterov" else ""
    return f"functools.partial(optax.sgd, momentum={values['momentum']!r}{nesterov})"


def _finished(
    lines: list[str],
    values: Values,
    num_runs: int | None,
    *,
    seed: int,
    band: str,
    labels: tuple[str, str],
) -> str:
    """With a simulation, the cost and the picture."""
    if num_runs is not None:
        lines += [
            "simulated = jaxdp.simulate(",
            f"    problem, algorithm, num_runs={num_runs}, key=jax.random.key({seed})",
            ")",
        ]
    lines += [f"print(jaxdp.account(algorithm, delta={values['delta']!r}))", ""]
    parts: dict[str, Any] = {"time_label": labels[0], "risk_label": labels[1]}
    runs = "" if num_runs is None else _RUNS
    return "\n".join(lines) + "\n" + _PICTURE.format(band=band, runs=runs, **parts)

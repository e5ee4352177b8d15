"""`jaxdp account`: the privacy cost of an algorithm, or the noise for a budget."""

import argparse
import decimal
from typing import Any

import optax

import jaxdp
from jaxdp.cli.output import as_json, asked_budget
from jaxdp.privacy import PoissonSampler, ShuffledEpochs

# Arguments on which a cost does not depend.
_A_RATE, _A_CLIP, _A_LENGTH = 0.1, 1.0, 1


def account(options: argparse.Namespace) -> None:
    """Print the cost and the noise."""
    name = "noise_multiplier" if options.algorithm.startswith("dp") else "rho"
    kind, settings = _described(options)
    unit = {"records_per_person": options.records_per_person}
    is_found = "epsilon" in options
    if is_found:
        algorithm = kind.calibrated(**asked_budget(options), **settings, **unit)
    elif kind is jaxdp.DPGD:
        # The noise multiplier is 2 sigma / sqrt(learning rate).
        algorithm = kind(noise_scale=options.noise_multiplier / 2, **settings)
    else:
        algorithm = kind(**{name: getattr(options, name)}, **settings)
    cost = jaxdp.account(algorithm, delta=options.delta, **unit)
    value = float(getattr(algorithm, name))
    if options.json:
        print(as_json({"algorithm": options.algorithm, name: value, "cost": vars(cost)}))
        return
    if is_found:
        # Six digits that keep the budget: a noise multiplier is rounded up, and rho down.
        rounding = decimal.ROUND_FLOOR if name == "rho" else decimal.ROUND_CEILING
        value = decimal.Context(prec=6, rounding=rounding).create_decimal_from_float(value)
    print(f"{options.algorithm}: {name.replace('_', ' ')} {value:.6g}", cost, sep="\n")


def _described(options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """The algorithm, and all its settings except the noise."""
    if options.algorithm == "one-pass":
        schedule = jaxdp.Constant(_A_RATE)
        settings = {"learning_rate": schedule, "clip_scale": _A_CLIP, "num_steps": _A_LENGTH}
        return jaxdp.OnePassDPSGD, settings
    if options.algorithm == "correlated":
        strategy = jaxdp.privacy.independent_strategy(_A_LENGTH)
        settings = {"rates": [_A_RATE] * _A_LENGTH, "clip_scale": _A_CLIP, "strategy": strategy}
        return jaxdp.CorrelatedDPSGD, settings | {"batch_size": 1}
    settings = {"clip_norm": _A_CLIP, "num_steps": options.num_steps}
    if options.algorithm == "dp-gd":
        return jaxdp.DPGD, settings | {"learning_rate": 1.0}
    if "sampling_rate" in options:
        sampler = PoissonSampler(options.num_records, options.sampling_rate)
    else:
        sampler = ShuffledEpochs(options.num_records, options.batch_size)
    return jaxdp.PrivateOptimiser, settings | {"optimiser": optax.sgd(_A_RATE), "sampler": sampler}

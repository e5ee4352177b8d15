"""`jaxdp account`: what an algorithm costs, or the noise that keeps it within a budget."""

import argparse
import dataclasses
import decimal
from typing import Any

from jaxdp.cli.output import as_json, settle

_OF_SUMS = ("noise_multiplier", "num_steps")
_OF_BATCHES = ("num_records", "sampling_rate", "batch_size")
# What a cost does not depend on.
_A_RATE, _A_CLIP, _A_LENGTH = 0.1, 1.0, 1


def account(options: argparse.Namespace) -> None:
    """Print the cost, and the noise that it belongs to."""
    import jaxdp

    make = {
        "one-pass": _one_pass,
        "correlated": _correlated,
        "dp-gd": _dp_gd,
        "dp-sgd": _dp_sgd,
    }[options.algorithm]
    algorithm, noise = make(options)
    cost = jaxdp.account(algorithm, delta=options.delta)
    if options.json:
        fields = {field.name: getattr(cost, field.name) for field in dataclasses.fields(cost)}
        print(as_json({"algorithm": options.algorithm, **noise, "cost": fields}))
        return
    (name, value), *_ = noise.items()
    text = _enough(name, value) if "epsilon" in options else f"{value:.6g}"
    print(f"{options.algorithm}: {name.replace('_', ' ')} {text}")
    print(cost)


def _one_pass(options: argparse.Namespace) -> tuple[Any, dict[str, float]]:
    import jaxdp

    _refuse_sums(options)
    settings = {
        "learning_rate": jaxdp.Constant(_A_RATE),
        "clip_scale": _A_CLIP,
        "num_steps": _A_LENGTH,
    }
    if _finds_noise(options, "rho"):
        made = jaxdp.OnePassDPSGD.calibrated(options.epsilon, options.delta, **settings)
    else:
        made = jaxdp.OnePassDPSGD(rho=options.rho, **settings)
    return made, {"rho": float(made.rho)}


def _correlated(options: argparse.Namespace) -> tuple[Any, dict[str, float]]:
    import jaxdp

    _refuse_sums(options)
    settings = {"batch_size": 1, "strategy": jaxdp.privacy.independent_strategy(_A_LENGTH)}
    rates = [_A_RATE] * _A_LENGTH
    if _finds_noise(options, "rho"):
        made = jaxdp.CorrelatedDPSGD.calibrated(
            options.epsilon, options.delta, rates=rates, clip_scale=_A_CLIP, **settings
        )
    else:
        made = jaxdp.CorrelatedDPSGD(rates, _A_CLIP, options.rho, **settings)
    return made, {"rho": float(made.rho)}


def _refuse_sums(options: argparse.Namespace) -> None:
    """Raise ValueError where an option is given of algorithms whose noise is on sums."""
    reason = f"does not belong to {options.algorithm}, whose noise is --rho"
    settle(options, {}, dict.fromkeys((*_OF_SUMS, *_OF_BATCHES), reason))


def _dp_gd(options: argparse.Namespace) -> tuple[Any, dict[str, float]]:
    import jaxdp

    settle(options, {}, {name: "does not belong to dp-gd" for name in ("rho", *_OF_BATCHES)})
    _require(options, "num_steps")
    settings = {"learning_rate": 1.0, "clip_norm": _A_CLIP, "num_steps": options.num_steps}
    if _finds_noise(options, "noise_multiplier"):
        made = jaxdp.DPGD.calibrated(options.epsilon, options.delta, **settings)
    else:
        if not options.noise_multiplier >= 0:
            raise ValueError(f"expected --noise-multiplier >= 0, got {options.noise_multiplier}")
        # The noise multiplier is 2 sigma / sqrt(learning rate).
        made = jaxdp.DPGD(noise_scale=options.noise_multiplier / 2, **settings)
    return made, {"noise_multiplier": float(made.noise_multiplier)}


def _dp_sgd(options: argparse.Namespace) -> tuple[Any, dict[str, float]]:
    import optax

    import jaxdp
    from jaxdp.privacy import PoissonSampler, ShuffledEpochs

    settle(options, {}, {"rho": "does not belong to dp-sgd, whose noise is --noise-multiplier"})
    _require(options, "num_steps", "num_records")
    if ("sampling_rate" in options) == ("batch_size" in options):
        raise ValueError(
            "expected one of --sampling-rate (Poisson batches) and --batch-size (shuffled epochs)"
        )
    if "sampling_rate" in options:
        sampler = PoissonSampler(options.num_records, options.sampling_rate)
    else:
        sampler = ShuffledEpochs(options.num_records, options.batch_size)
    settings = {"clip_norm": _A_CLIP, "num_steps": options.num_steps, "sampler": sampler}
    transformation = optax.sgd(_A_RATE)
    if _finds_noise(options, "noise_multiplier"):
        made = jaxdp.PrivateOptimiser.calibrated(
            transformation, options.epsilon, options.delta, **settings
        )
    else:
        made = jaxdp.PrivateOptimiser(
            transformation, noise_multiplier=options.noise_multiplier, **settings
        )
    return made, {"noise_multiplier": float(made.noise_multiplier)}


def _finds_noise(options: argparse.Namespace, name: str) -> bool:
    """Whether a budget was given in place of the noise that `name` is; one of the two must be."""
    if ("epsilon" in options) == (name in options):
        raise ValueError(f"expected one of --epsilon and --{name.replace('_', '-')}")
    return "epsilon" in options


def _require(options: argparse.Namespace, *names: str) -> None:
    for name in names:
        if name not in options:
            raise ValueError(f"expected --{name.replace('_', '-')} for {options.algorithm}")


def _enough(name: str, value: float) -> str:
    """Noise that was found for a budget, to six digits that keep it: whoever copies them does too.

    A noise multiplier is rounded up and rho, which falls as noise is added, down.
    """
    is_noise = name == "noise_multiplier"
    rounding = decimal.ROUND_CEILING if is_noise else decimal.ROUND_FLOOR
    digits = decimal.Context(prec=6, rounding=rounding).create_decimal_from_float(value)
    return f"{digits:g}"

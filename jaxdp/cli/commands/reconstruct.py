"""`jaxdp reconstruct`: training rows read off trained parameters, and how many were found."""

import argparse
import dataclasses
import io
import time
from typing import Any

import numpy as np

from jaxdp.cli.files import write_picture, write_text
from jaxdp.cli.output import (
    as_json,
    described_options,
    progress_bar,
    seeded_keys,
)
from jaxdp.cli.victims import Victim, activation_named, read_victim, train_victim
from jaxdp.core.files.whole_files import write_whole

_FILES = {"rows": "found.npz", "picture": "reconstruct.png", "numbers": "reconstruct.json"}
_FOUND_BELOW = 0.1
_CHANCE_DRAWS = 50
_FOREIGN_TO_A_MODEL = ("dim", "num_features", "label_noise", "epsilon", "delta", "num_steps")


def reconstruct(options: argparse.Namespace) -> None:
    """Attack a model, score the attack where the rows are known, and write what was found."""
    from jaxdp import attacks
    from jaxdp.cli.output import settle
    from jaxdp.cli.sizes import check_steps
    from jaxdp.core.checks import require_count
    from jaxdp.plots import plot_reconstruction

    for name in ("max_passes", "num_starts"):
        flag = f"--{name.replace('_', '-')}"
        check_steps(require_count(flag, getattr(options, name)), flag)
    if options.model is not None:
        settle(options, {}, {name: "does not go with a model" for name in _FOREIGN_TO_A_MODEL})
    victim_key, attack_key = seeded_keys(options, 2, *_FILES.values())
    victim = read_victim(options) if options.model else train_victim(options, victim_key)
    started = time.perf_counter()
    most_passes = options.max_passes * options.num_starts
    with progress_bar("reconstruct", quiet=options.quiet) as advance:
        found = attacks.reconstruct(
            victim.target,
            victim.num_samples,
            key=attack_key,
            max_passes=options.max_passes,
            num_starts=options.num_starts,
            progress=lambda passes, loss: advance(min(passes / most_passes, 1)),
        )
    seconds = time.perf_counter() - started
    flips = _is_odd_or_even(options.activation)
    score = _score(victim, found.inputs, flips)
    report = attacks.leak_report(
        victim.target,
        found,
        victim.true_inputs,
        allow_sign_flips=flips,
        found_below=_FOUND_BELOW,
    )
    summary = _summary(options, victim, found, seconds) | score
    summary |= {
        "verdict": report.verdict.name.lower(),
        "applies": report.verdict.applies,
        "true_loss": report.true_loss,
    }
    files = {kind: options.out / name for kind, name in _FILES.items()}
    rows: dict[str, Any] = {"inputs": np.asarray(found.inputs)}
    if victim.true_inputs is not None:
        rows["true_inputs"] = victim.true_inputs
    archive = io.BytesIO()
    np.savez_compressed(archive, **rows)
    write_whole(files["rows"], archive.getvalue())
    figure = plot_reconstruction(
        found.inputs,
        victim.true_inputs,
        levels=_levels(score, victim),
        allow_sign_flips=flips,
        title=_heading(options, victim),
    )
    write_picture(files["picture"], figure)
    summary["files"] = [str(path) for path in files.values()]
    text = as_json(summary)
    write_text(files["numbers"], text)
    if options.json:
        print(text)
        return
    print(_heading(options, victim), *victim.notes, *_lines(summary, victim, flips), sep="\n")
    print(f"verdict: {report}")
    if victim.cost is not None:
        print(victim.cost)
    print(*(f"{kind}: {path}" for kind, path in files.items()), sep="\n")


def _is_odd_or_even(name: str) -> bool:
    """Whether negated rows have the same span of features: then signs cannot be found."""
    activation, places = activation_named(name), np.linspace(0.1, 3, 30)
    here, there = np.asarray(activation(places)), np.asarray(activation(-places))
    return np.allclose(here, there) or np.allclose(here, -there)


def _score(victim: Victim, found, flips: bool) -> dict[str, Any]:
    """Errors of the rows, and what rows drawn without looking at the model would have."""
    from jaxdp.attacks import reconstruction_error, row_errors

    true = victim.true_inputs
    if true is None:
        return {}
    errors = row_errors(true, found, allow_sign_flips=flips)
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((_CHANCE_DRAWS, *true.shape))
    draws *= true.shape[1] ** 0.5 / np.linalg.norm(draws, axis=2, keepdims=True)
    chance = [reconstruction_error(true, draw, allow_sign_flips=flips) for draw in draws]
    return {
        "error": float(errors.mean()),
        "rows_found": int((errors < _FOUND_BELOW).sum()),
        "row_errors": errors.tolist(),
        "chance_error": float(np.mean(chance)),
        "predicted_error": victim.predicted,
    }


def _summary(options: argparse.Namespace, victim: Victim, found, seconds: float) -> dict[str, Any]:
    target, cost = victim.target, victim.cost
    costs = cost and {field.name: getattr(cost, field.name) for field in dataclasses.fields(cost)}
    return {
        "problem": "reconstruction",
        "options": described_options(options),
        "num_samples": victim.num_samples,
        "dim": target.dim,
        "num_features": target.num_features,
        "num_outputs": target.num_outputs,
        "ratio": target.num_features * target.num_outputs / (target.dim * victim.num_samples),
        "loss": float(found.loss),
        "converged": bool(found.converged),
        "status": str(found.status),
        "num_passes": float(found.num_passes),
        "seconds": seconds,
        "cost": costs,
    }


def _levels(score: dict[str, Any], victim: Victim) -> dict[str, float]:
    """What the picture marks."""
    named = {"chance": score.get("chance_error"), "predicted": victim.predicted}
    return {name: level for name, level in named.items() if level is not None}


def _heading(options: argparse.Namespace, victim: Victim) -> str:
    target = victim.target
    outputs = f" x {target.num_outputs} outputs" if target.num_outputs > 1 else ""
    return (
        f"{victim.num_samples} rows of {target.dim} numbers from {target.num_features} "
        f"{options.activation} features{outputs}"
    )


def _lines(summary: dict[str, Any], victim: Victim, flips: bool) -> list[str]:
    """The table: a name and a value in each line."""
    verdict = "converged" if summary["converged"] else f"not converged ({summary['status']})"
    rows = {
        "p/(dn)": f"{summary['ratio']:.3g}",
        "loss": f"{summary['loss']:.2e}  {verdict}",
        "passes": f"{summary['num_passes']:.0f} over all features, {summary['seconds']:.1f} s",
    }
    if "error" in summary:
        sign = ", up to sign" if flips else ""
        rows["error"] = f"{summary['error']:.3g}  (chance {summary['chance_error']:.2f}{sign})"
        if victim.predicted is not None:
            rows["error"] += f", predicted {victim.predicted:.3g}"
        rows["rows found"] = f"{summary['rows_found']} of {summary['num_samples']} within .1"
    width = max(map(len, rows))
    return [f"{name:>{width}}  {value}" for name, value in rows.items()]

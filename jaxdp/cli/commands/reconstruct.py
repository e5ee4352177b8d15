"""`jaxdp reconstruct`: training rows read off trained parameters, and how many were found."""

import argparse
import io
import time
from typing import Any

import numpy as np

from jaxdp import attacks
from jaxdp.cli import output
from jaxdp.cli.commands import victims
from jaxdp.cli.values import check_steps, flag
from jaxdp.core.checks import require_count
from jaxdp.core.files.whole_files import write_whole
from jaxdp.plots import plot_reconstruction

_FILES = {"rows": "found.npz", "picture": "reconstruct.png", "numbers": "reconstruct.json"}
_FOUND_BELOW = 0.1
_CHANCE_DRAWS = 50


def reconstruct(options: argparse.Namespace) -> None:
    """Attack a model, score the attack where the rows are known, and write what was found."""
    for option in ("max_passes", "num_starts"):
        check_steps(require_count(flag(option), getattr(options, option)), flag(option))
    victims.check_victim(options)
    victim_key, attack_key = output.seeded_keys(options, 2)
    files = output.prepared_files(options, _FILES)
    if options.model is not None:
        victim = victims.read_victim(options)
    else:
        victim = victims.train_victim(options, victim_key)
    target, true = victim.target, victim.true_inputs
    started = time.perf_counter()
    most_passes = options.max_passes * options.num_starts
    with output.progress_bar("reconstruct", quiet=options.quiet) as advance:
        found = attacks.reconstruct(
            target,
            victim.num_samples,
            key=attack_key,
            max_passes=options.max_passes,
            num_starts=options.num_starts,
            progress=lambda passes, loss: advance(min(passes / most_passes, 1)),
        )
    seconds = time.perf_counter() - started
    flips = _is_odd_or_even(options.activation)
    report = attacks.leak_report(
        target, found, true, allow_sign_flips=flips, found_below=_FOUND_BELOW
    )
    score = {} if true is None else _score(victim, true, found.inputs, flips)
    summary = {
        "problem": "reconstruction",
        "options": output.described_options(options),
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
        "cost": victim.cost and vars(victim.cost),
        **score,
        "verdict": report.verdict.name.lower(),
        "applies": report.verdict.applies,
        "true_loss": report.true_loss,
    }
    rows: dict[str, Any] = {"inputs": np.asarray(found.inputs)}
    if true is not None:
        rows["true_inputs"] = true
    archive = io.BytesIO()
    np.savez_compressed(archive, **rows)
    write_whole(files["rows"], archive.getvalue())
    outputs = f" x {target.num_outputs} outputs" if target.num_outputs > 1 else ""
    heading = (
        f"{victim.num_samples} rows of {target.dim} numbers from {target.num_features} "
        f"{options.activation} features{outputs}"
    )
    levels = {"chance": score.get("chance_error"), "predicted": victim.predicted}
    figure = plot_reconstruction(
        found.inputs,
        true,
        levels={name: level for name, level in levels.items() if level is not None},
        allow_sign_flips=flips,
        title=heading,
    )
    output.write_picture(files["picture"], figure)
    lines = [heading, *victim.notes, *_lines(summary, flips), f"verdict: {report}"]
    output.finish(
        options, files, summary, lines + ([victim.cost] if victim.cost is not None else [])
    )


def _is_odd_or_even(name: str) -> bool:
    """Whether negated rows have the same span of features: then signs cannot be found."""
    activation, places = victims.activation_named(name), np.linspace(0.1, 3, 30)
    here, there = np.asarray(activation(places)), np.asarray(activation(-places))
    return np.allclose(here, there) or np.allclose(here, -there)


def _score(victim: victims.Victim, true: np.ndarray, found, flips: bool) -> dict[str, Any]:
    """Errors of the rows, and what rows drawn without looking at the model would have."""
    errors = attacks.row_errors(true, found, allow_sign_flips=flips)
    draws = np.random.default_rng(0).standard_normal((_CHANCE_DRAWS, *true.shape))
    draws *= true.shape[1] ** 0.5 / np.linalg.norm(draws, axis=2, keepdims=True)
    chance = [attacks.reconstruction_error(true, draw, allow_sign_flips=flips) for draw in draws]
    return {
        "error": float(errors.mean()),
        "rows_found": int((errors < _FOUND_BELOW).sum()),
        "row_errors": errors.tolist(),
        "chance_error": float(np.mean(chance)),
        "predicted_error": victim.predicted,
    }


def _lines(summary: dict[str, Any], flips: bool) -> list[str]:
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
        if summary["predicted_error"] is not None:
            rows["error"] += f", predicted {summary['predicted_error']:.3g}"
        rows["rows found"] = f"{summary['rows_found']} of {summary['num_samples']} within .1"
    width = max(map(len, rows))
    return [f"{name:>{width}}  {value}" for name, value in rows.items()]

"""`python -m experiments.accelerator`: all that is worth measuring on an accelerator, in minutes.

Each part runs in a process of its own, within a time of its own, and writes its rows as they come:
DIR/<part>.json, and DIR/<part>.png when it ends. DIR/accelerator.md, all tables, is written again
after each part. Time that a part leaves over goes to those after it. Parts that failed, or rows
that show a fault, are listed at the end, and the exit status is then 1.
"""

import argparse
import importlib
import importlib.metadata
import json
import math
import os
import pathlib
import subprocess
import sys
import time
from typing import Any, NoReturn

from experiments.accelerator.parts import Row, Setting, as_table, in_one_line, written

# In the order of their worth, with their shares of the time.
PARTS = {
    "known_numbers": ("Is it right there?", 0.19),
    "clipping": ("Clipped gradient sums", 0.22),
    "engines": ("Simulators and theories", 0.25),
    "grids": ("Sweeps", 0.04),
    "reconstruction": ("Reconstruction at the paper's size", 0.2),
    "training": ("Digits at the paper's size, and a million rows", 0.1),
    "figures": ("Figures on data of the papers' size", 0.1),
}
OUT = pathlib.Path("experiments", "results", "accelerator")
# Name of the process that reports device and versions.
_FACTS = "facts"
# A process that does not end by itself is given this much longer than its time.
_GRACE = 5.0


def main(arguments: list[str] | None = None) -> int:
    """Run the parts; 1 if one failed or found a fault."""
    options = _options(arguments)
    if options.part:
        _run_here(options)
    out: pathlib.Path = options.out
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(in_one_line(error), file=sys.stderr)
        return 1
    names = [options.only] if options.only else list(PARTS)
    begun, left = time.monotonic(), {name: PARTS[name][1] for name in names}
    # Not in this process: to ask a GPU for its name takes most of its memory, and keeps it.
    subprocess.run(_command(_FACTS), check=False)
    failed = {}
    for name in names:
        remaining = options.seconds - (time.monotonic() - begun)
        seconds = remaining * left[name] / sum(left.values())
        del left[name]
        try:
            reason = _run_part(name, options, seconds)
            _draw(name, out / f"{name}.json")
            (out / "accelerator.md").write_text(page(out))
        except OSError as error:
            reason = in_one_line(error)
        if reason:
            failed[name] = reason
        print(f"{name}: {reason or 'done'}", flush=True)
    for name, reason in failed.items():
        print(f"{name} failed: {reason}", file=sys.stderr)
    return 1 if failed else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.accelerator", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="seconds each, on any device")
    parser.add_argument("--only", choices=PARTS, metavar="PART", help=f"one of {', '.join(PARTS)}")
    parser.add_argument("--seconds", type=float, default=540.0, help="for all parts [%(default)s]")
    parser.add_argument("--out", type=pathlib.Path, default=OUT, help="folder [%(default)s]")
    parser.add_argument("--data", type=pathlib.Path, help="folder with cifar10/ and mnist/")
    parser.add_argument("--code", default=_commit(), help="the sources' commit [%(default)s]")
    parser.add_argument("--part", choices=[_FACTS, *PARTS], help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _run_part(name: str, options: argparse.Namespace, seconds: float) -> str | None:
    """Run a part in its process; why it failed, or None."""
    words = [*_command(name), "--seconds", f"{seconds:.1f}", "--out", str(options.out)]
    words += ["--code", options.code]
    words += ["--smoke"] * options.smoke + (["--data", str(options.data)] if options.data else [])
    path = options.out / f"{name}.json"
    # An earlier run's picture would not belong to the rows of this one.
    for old in (path, path.with_suffix(".png")):
        old.unlink(missing_ok=True)
    try:
        done = subprocess.run(words, timeout=max(seconds, 0) + _GRACE, check=False)
    except subprocess.TimeoutExpired:
        return f"ended after {seconds:.0f} s"
    if done.returncode:
        return f"its process ended with {done.returncode}"
    faults = [row["what"] for row in json.loads(path.read_text())["rows"] if row["is_wrong"]]
    return f"wrong: {'; '.join(faults)}" if faults else None


def _command(part: str) -> list[str]:
    return [sys.executable, "-m", "experiments.accelerator", "--part", part]


def _run_here(options: argparse.Namespace) -> NoReturn:
    """Run a part, or print device and versions, in this process, and end it."""
    status = 0
    try:
        if options.part == _FACTS:
            print(_in_words(_facts()))
        else:
            _run(options)
    except Exception as error:
        print(f"  {in_one_line(error)}", file=sys.stderr)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # Does not wait for threads that still compile.
    os._exit(status)


def _run(options: argparse.Namespace) -> None:
    """Write the rows of a part as they come."""
    begun = time.monotonic()
    part = importlib.import_module(f"experiments.accelerator.{options.part}")
    setting = Setting(options.smoke, options.data, begun + options.seconds)
    path, rows = options.out / f"{options.part}.json", []
    facts = {**_facts(), "code": options.code}
    written(rows, path, facts)
    for row in part.rows(setting):
        rows.append(row)
        written(rows, path, {**facts, "seconds": time.monotonic() - begun})
        print(f"  {row.what}: {row.value:.4g} {row.unit} {row.note}".rstrip(), flush=True)


def _draw(name: str, path: pathlib.Path) -> None:
    """A picture of the rows that a part has left, be it late or not."""
    rows = [Row(**row) for row in json.loads(path.read_text())["rows"]] if path.exists() else []
    try:
        part = importlib.import_module(f"experiments.accelerator.{name}")
        if rows:
            part.draw(rows).savefig(path.with_suffix(".png"), dpi=150)
    except ImportError as error:
        print(f"  no picture: {error}", flush=True)


def _facts() -> dict[str, Any]:
    """Device, versions and date."""
    import jax

    device = jax.devices()[0]
    memory = (device.memory_stats() or {}).get("bytes_limit", math.nan)
    return {
        "device": f"{len(jax.devices())} x {device.device_kind} ({device.platform})",
        "device_gigabytes": round(memory / 1e9, 1),
        "cores": os.cpu_count(),
        "jax": jax.__version__,
        "jaxlib": importlib.metadata.version("jaxlib"),
        "products": jax.config.values["jax_default_matmul_precision"] or "the device's default",
        "date": time.strftime("%Y-%m-%d"),
    }


def _commit() -> str:
    """Commit of the working tree; "not known" for a copy without its repository."""
    try:
        words = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "not known"


def _in_words(facts: dict[str, Any]) -> str:
    return (
        f"{facts['device']}, {facts['device_gigabytes']} GB, and {facts['cores']} CPU cores; jax "
        f"{facts['jax']}, jaxlib {facts['jaxlib']}; products: {facts['products']}; {facts['date']}"
    )


def page(out: pathlib.Path) -> str:
    """All tables; parts that have not run are empty and say so."""
    lines = ["# On an accelerator", "", _PREFACE]
    for name, (title, _) in PARTS.items():
        path = out / f"{name}.json"
        lines += ["", f"## {title}", ""]
        if not path.exists():
            lines.append("Not run yet.")
            continue
        found = json.loads(path.read_text())
        rows = [Row(**row) for row in found.pop("rows")]
        lines += [f"{_in_words(found)}; code: {found['code']}.", "", as_table(rows)]
        if path.with_suffix(".png").exists():
            lines += ["", f"![{title}]({name}.png)"]
    return "\n".join(lines) + "\n"


_PREFACE = (
    "Written by `python -m experiments.accelerator`. Times are medians after the first call, which "
    "includes compilation. A share is of the least time in which the device could copy the bytes, "
    "do the arithmetic or draw the normals that the algorithm needs, at the speeds measured just "
    "before; it says how far an engine could still go. A row in bold is a fault."
)


if __name__ == "__main__":
    sys.exit(main())

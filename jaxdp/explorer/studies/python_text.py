"""The Python that makes the page's picture: text that runs as it is.

What the page computes with and what it writes out are one and the same `Call`: it is made for the
one and written for the other, so that the two cannot disagree about a number.
"""

import functools
from typing import Any, NamedTuple

import optax

import jaxdp
from jaxdp.explorer.studies.base import Values

_MODULES = {"functools": functools, "jaxdp": jaxdp, "optax": optax}
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


class Name(str):
    """The dotted name of a public object, such as `optax.sgd`; written here, never sent."""


class Call(NamedTuple):
    """A call of a public function."""

    function: Name  # its dotted name
    # given, named: arguments by position and by name: numbers, lists, names or calls.
    given: tuple[Any, ...]
    named: dict[str, Any]


def call(function: str, *given: Any, **named: Any) -> Call:
    return Call(Name(function), given, named)


def made(part: Any) -> Any:
    """The object that a call returns or that a name stands for; any other value as it is."""
    if isinstance(part, Name):
        module, *path = part.split(".")
        return functools.reduce(getattr, path, _MODULES[module])
    if isinstance(part, Call):
        named = {name: made(each) for name, each in part.named.items()}
        return made(part.function)(*map(made, part.given), **named)
    return part


def assigned(variable: str, part: Call) -> list[str]:
    """Lines that give a variable what a call returns, an argument to each."""
    return [f"{variable} = {part.function}(", *(f"    {each}," for each in _arguments(part)), ")"]


def finished(
    lines: list[str],
    values: Values,
    num_runs: int | None,
    *,
    seed: int,
    has_band: bool,
    labels: tuple[str, str],
) -> str:
    """The program that begins with these lines, with a simulation, the cost and the picture.

    The lines make `problem`, `algorithm`, `predicted` and, where there is one, `band`; nothing is
    simulated where `num_runs` is None.
    """
    if num_runs is not None:
        runs = f"    problem, algorithm, num_runs={num_runs}, key=jax.random.key({seed})"
        lines = [*lines, "simulated = jaxdp.simulate(", runs, ")"]
    lines = [*lines, f"print(jaxdp.account(algorithm, delta={values['delta']!r}))", ""]
    return (
        "\n".join(lines)
        + "\n"
        + _PICTURE.format(
            band=_BAND if has_band else "",
            runs="" if num_runs is None else _RUNS,
            time_label=labels[0],
            risk_label=labels[1],
        )
    )


def _arguments(part: Call) -> list[str]:
    return [*map(_text, part.given), *(f"{name}={_text(it)}" for name, it in part.named.items())]


def _text(part: Any) -> str:
    if isinstance(part, Call):
        return f"{part.function}({', '.join(_arguments(part))})"
    return str(part) if isinstance(part, Name) else repr(part)

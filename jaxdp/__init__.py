"""jaxdp: the theory of differentially private learning, on accelerators.

A problem and an algorithm are described once: `simulate` runs them, `predict` predicts their risk,
and `account` computes the privacy cost. Specialists' names are in the packages, such as
`jaxdp.theory`.
"""

import importlib as _importlib
from typing import Any as _Any

# The module of each name. It is imported when a name is first used, so `import jaxdp` is fast.
# Type checkers read `__init__.pyi`.
_HOMES = {
    "algorithms": (
        "CorrelatedDPSGD",
        "DPGD",
        "OnePassDPSGD",
        "PolyakAverage",
        "PrivateOptimiser",
        "TailAverage",
        "train",
    ),
    "clipping": ("clipped_gradient_sum",),
    "comparison": ("compare",),
    "core.checks": ("NotCoveredError",),
    "core.trajectory": ("Status", "Trajectory"),
    "planning": ("Box", "Optimal", "forecast", "plan", "required_epsilon", "required_samples"),
    "privacy": ("account",),
    "problems": (
        "FixedFeatures",
        "InputScales",
        "LinearRegression",
        "Linearised",
        "LogisticRegression",
        "RandomFeatures",
        "TabularRegression",
    ),
    "schedules": ("Constant", "FromSteps", "Hyperbolic", "PiecewiseLinear", "Polynomial"),
    "simulation": ("FunctionSpace", "HomogenizedSDE", "Iterates", "Reduced", "simulate"),
    "sweeps": ("sweep",),
    "theory": (
        "CoupledODE",
        "DiscreteRecursion",
        "FiniteDimension",
        "Fluctuations",
        "GaussianClosure",
        "GradientFlow",
        "LowerBound",
        "OrnsteinUhlenbeck",
        "MeanPath",
        "UnclippedRecursion",
        "UpperBound",
        "predict",
    ),
}
# Names of specialists that are found here too.
_ALSO = {
    "algorithms": ("ExactCalibration", "ExponentialAverage", "PublishedCalibration"),
    "planning": ("FreeForm",),
    "problems": ("hermite_coefficients",),
    "simulation": ("LinearisedNetwork",),
}
_ROOMS = (
    "algorithms",
    "attacks",
    "clipping",
    "comparison",
    "data",
    "estimators",
    "explorer",
    "kernels",
    "losses",
    "planning",
    "plots",
    "privacy",
    "problems",
    "regression",
    "schedules",
    "simulation",
    "sweeps",
    "theory",
)
__all__ = sorted(  # pyright: ignore[reportUnsupportedDunderAll]
    name for names in _HOMES.values() for name in names
)


def __getattr__(name: str) -> _Any:
    """Import a name or a package of jaxdp when it is first used."""
    if name == "__version__":
        from jaxdp.core.packages import version_of

        return version_of()
    for home, names in (*_HOMES.items(), *_ALSO.items()):
        if name in names:
            module = _importlib.import_module(f"jaxdp.{home}")
            return globals().setdefault(name, getattr(module, name))
    if name in (*_ROOMS, "cli", "core"):
        return _importlib.import_module(f"jaxdp.{name}")
    raise AttributeError(f"module 'jaxdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS, "__version__"]

"""jaxdp: the theory of differentially private learning, on accelerators.

A problem and an algorithm are described once: `simulate` runs them, `predict` predicts their risk,
and `account` computes the privacy cost.
"""

from typing import TYPE_CHECKING
from typing import Any as _Any

if TYPE_CHECKING:
    from jaxdp import algorithms as algorithms
    from jaxdp import attacks as attacks
    from jaxdp import clipping as clipping
    from jaxdp import comparison as comparison
    from jaxdp import data as data
    from jaxdp import estimators as estimators
    from jaxdp import explorer as explorer
    from jaxdp import kernels as kernels
    from jaxdp import losses as losses
    from jaxdp import planning as planning
    from jaxdp import plots as plots
    from jaxdp import privacy as privacy
    from jaxdp import problems as problems
    from jaxdp import regression as regression
    from jaxdp import schedules as schedules
    from jaxdp import simulation as simulation
    from jaxdp import sweeps as sweeps
    from jaxdp import theory as theory
    from jaxdp.algorithms import DPGD as DPGD
    from jaxdp.algorithms import CorrelatedDPSGD as CorrelatedDPSGD
    from jaxdp.algorithms import ExactCalibration as ExactCalibration
    from jaxdp.algorithms import ExponentialAverage as ExponentialAverage
    from jaxdp.algorithms import OnePassDPSGD as OnePassDPSGD
    from jaxdp.algorithms import PolyakAverage as PolyakAverage
    from jaxdp.algorithms import PrivateOptimiser as PrivateOptimiser
    from jaxdp.algorithms import PublishedCalibration as PublishedCalibration
    from jaxdp.algorithms import TailAverage as TailAverage
    from jaxdp.algorithms import train as train
    from jaxdp.clipping import clipped_gradient_sum as clipped_gradient_sum
    from jaxdp.clipping import per_sample_gradient_norms as per_sample_gradient_norms
    from jaxdp.comparison import Comparison as Comparison
    from jaxdp.comparison import compare as compare
    from jaxdp.core.checks import NotCoveredError as NotCoveredError
    from jaxdp.core.numerics.hermite import hermite_coefficients as hermite_coefficients
    from jaxdp.core.trajectory import Status as Status
    from jaxdp.core.trajectory import Trajectory as Trajectory
    from jaxdp.planning import Box as Box
    from jaxdp.planning import FreeForm as FreeForm
    from jaxdp.planning import Optimal as Optimal
    from jaxdp.planning import forecast as forecast
    from jaxdp.planning import plan as plan
    from jaxdp.planning import required_epsilon as required_epsilon
    from jaxdp.planning import required_samples as required_samples
    from jaxdp.privacy import Cost as Cost
    from jaxdp.privacy import account as account
    from jaxdp.problems import FixedFeatures as FixedFeatures
    from jaxdp.problems import InputScales as InputScales
    from jaxdp.problems import Linearised as Linearised
    from jaxdp.problems import LinearRegression as LinearRegression
    from jaxdp.problems import LogisticRegression as LogisticRegression
    from jaxdp.problems import RandomFeatures as RandomFeatures
    from jaxdp.problems import TabularRegression as TabularRegression
    from jaxdp.schedules import Constant as Constant
    from jaxdp.schedules import FromSteps as FromSteps
    from jaxdp.schedules import Hyperbolic as Hyperbolic
    from jaxdp.schedules import PiecewiseLinear as PiecewiseLinear
    from jaxdp.schedules import Polynomial as Polynomial
    from jaxdp.simulation import ClippedSDE as ClippedSDE
    from jaxdp.simulation import FunctionSpace as FunctionSpace
    from jaxdp.simulation import HomogenizedSDE as HomogenizedSDE
    from jaxdp.simulation import Iterates as Iterates
    from jaxdp.simulation import LinearisedNetwork as LinearisedNetwork
    from jaxdp.simulation import NetworkTraining as NetworkTraining
    from jaxdp.simulation import OrnsteinUhlenbeckSDE as OrnsteinUhlenbeckSDE
    from jaxdp.simulation import Reduced as Reduced
    from jaxdp.simulation import simulate as simulate
    from jaxdp.sweeps import sweep as sweep
    from jaxdp.theory import ClippedDiffusion as ClippedDiffusion
    from jaxdp.theory import CoupledODE as CoupledODE
    from jaxdp.theory import DiscreteRecursion as DiscreteRecursion
    from jaxdp.theory import DiscreteVolterra as DiscreteVolterra
    from jaxdp.theory import FiniteDimension as FiniteDimension
    from jaxdp.theory import Fluctuations as Fluctuations
    from jaxdp.theory import GaussianClosure as GaussianClosure
    from jaxdp.theory import GradientFlow as GradientFlow
    from jaxdp.theory import LowerBound as LowerBound
    from jaxdp.theory import ModewiseClosure as ModewiseClosure
    from jaxdp.theory import OrnsteinUhlenbeck as OrnsteinUhlenbeck
    from jaxdp.theory import TangentClosure as TangentClosure
    from jaxdp.theory import TightLowerBound as TightLowerBound
    from jaxdp.theory import TightUpperBound as TightUpperBound
    from jaxdp.theory import UnclippedRecursion as UnclippedRecursion
    from jaxdp.theory import UpperBound as UpperBound
    from jaxdp.theory import predict as predict

    __version__: str

# The module of each name. It is imported when a name is first used, so `import jaxdp` is fast.
_HOMES = {
    "jaxdp.algorithms": (
        "DPGD",
        "CorrelatedDPSGD",
        "ExactCalibration",
        "ExponentialAverage",
        "OnePassDPSGD",
        "PolyakAverage",
        "PrivateOptimiser",
        "PublishedCalibration",
        "TailAverage",
        "train",
    ),
    "jaxdp.clipping": (
        "clipped_gradient_sum",
        "per_sample_gradient_norms",
    ),
    "jaxdp.comparison": (
        "Comparison",
        "compare",
    ),
    "jaxdp.core.checks": ("NotCoveredError",),
    "jaxdp.core.numerics.hermite": ("hermite_coefficients",),
    "jaxdp.core.trajectory": (
        "Status",
        "Trajectory",
    ),
    "jaxdp.planning": (
        "Box",
        "FreeForm",
        "Optimal",
        "forecast",
        "plan",
        "required_epsilon",
        "required_samples",
    ),
    "jaxdp.privacy": (
        "Cost",
        "account",
    ),
    "jaxdp.problems": (
        "FixedFeatures",
        "InputScales",
        "LinearRegression",
        "Linearised",
        "LogisticRegression",
        "RandomFeatures",
        "TabularRegression",
    ),
    "jaxdp.schedules": (
        "Constant",
        "FromSteps",
        "Hyperbolic",
        "PiecewiseLinear",
        "Polynomial",
    ),
    "jaxdp.simulation": (
        "ClippedSDE",
        "FunctionSpace",
        "HomogenizedSDE",
        "Iterates",
        "LinearisedNetwork",
        "NetworkTraining",
        "OrnsteinUhlenbeckSDE",
        "Reduced",
        "simulate",
    ),
    "jaxdp.sweeps": ("sweep",),
    "jaxdp.theory": (
        "ClippedDiffusion",
        "CoupledODE",
        "DiscreteRecursion",
        "DiscreteVolterra",
        "FiniteDimension",
        "Fluctuations",
        "GaussianClosure",
        "GradientFlow",
        "LowerBound",
        "ModewiseClosure",
        "OrnsteinUhlenbeck",
        "TangentClosure",
        "TightLowerBound",
        "TightUpperBound",
        "UnclippedRecursion",
        "UpperBound",
        "predict",
    ),
}
# Without `estimators`, so that `from jaxdp import *` does not need scikit-learn.
__all__ = [
    "DPGD",
    "Box",
    "ClippedDiffusion",
    "ClippedSDE",
    "Comparison",
    "Constant",
    "CorrelatedDPSGD",
    "Cost",
    "CoupledODE",
    "DiscreteRecursion",
    "DiscreteVolterra",
    "ExactCalibration",
    "ExponentialAverage",
    "FiniteDimension",
    "FixedFeatures",
    "Fluctuations",
    "FreeForm",
    "FromSteps",
    "FunctionSpace",
    "GaussianClosure",
    "GradientFlow",
    "HomogenizedSDE",
    "Hyperbolic",
    "InputScales",
    "Iterates",
    "LinearRegression",
    "Linearised",
    "LinearisedNetwork",
    "LogisticRegression",
    "LowerBound",
    "ModewiseClosure",
    "NetworkTraining",
    "NotCoveredError",
    "OnePassDPSGD",
    "Optimal",
    "OrnsteinUhlenbeck",
    "OrnsteinUhlenbeckSDE",
    "PiecewiseLinear",
    "PolyakAverage",
    "Polynomial",
    "PrivateOptimiser",
    "PublishedCalibration",
    "RandomFeatures",
    "Reduced",
    "Status",
    "TabularRegression",
    "TailAverage",
    "TangentClosure",
    "TightLowerBound",
    "TightUpperBound",
    "Trajectory",
    "UnclippedRecursion",
    "UpperBound",
    "__version__",
    "account",
    "attacks",
    "clipped_gradient_sum",
    "compare",
    "forecast",
    "hermite_coefficients",
    "kernels",
    "losses",
    "per_sample_gradient_norms",
    "plan",
    "plots",
    "predict",
    "privacy",
    "regression",
    "required_epsilon",
    "required_samples",
    "simulate",
    "sweep",
    "train",
]


# Hidden from type checkers, for which every misspelt name would exist.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> _Any:
        """Import a name or a module of jaxdp when it is first used."""
        import importlib.util

        if name == "__version__":
            from jaxdp.core.packages import installed_version

            return installed_version()
        for home, names in _HOMES.items():
            if name in names:
                return globals().setdefault(name, getattr(importlib.import_module(home), name))
        if not name.startswith("_") and importlib.util.find_spec(f"jaxdp.{name}"):
            return importlib.import_module(f"jaxdp.{name}")
        raise AttributeError(f"module 'jaxdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "estimators"})

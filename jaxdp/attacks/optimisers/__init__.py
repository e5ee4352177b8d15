"""How the guess is improved: optimisers of the attack's loss."""

from jaxdp.attacks.optimisers.base import AbstractOptimiser as AbstractOptimiser
from jaxdp.attacks.optimisers.base import Attempt as Attempt
from jaxdp.attacks.optimisers.base import Ending as Ending
from jaxdp.attacks.optimisers.curvature_scaled import (
    CurvatureScaledMomentum as CurvatureScaledMomentum,
)
from jaxdp.attacks.optimisers.levenberg_marquardt import LevenbergMarquardt as LevenbergMarquardt
from jaxdp.attacks.optimisers.momentum_descent import MomentumDescent as MomentumDescent

__all__ = [
    "AbstractOptimiser",
    "Attempt",
    "CurvatureScaledMomentum",
    "Ending",
    "LevenbergMarquardt",
    "MomentumDescent",
]

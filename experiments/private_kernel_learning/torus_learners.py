r"""Private learners on the torus, from what a table says: one draw of noise, many ridges at once.

The level is $n\mu$, n times the mu of the Gaussian noise: (epsilon, delta) enter by mu alone, which
is epsilon up to a factor $(2\ln 1/\delta)^{1/2}$. For objective perturbation it is n times
$2c_1B/\sigma$, the mu of its linear term.
"""

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from experiments.private_kernel_learning.torus import Table, Torus
from jaxdp.kernels.release.joint_release import JointNoise, noise_of, num_normals

_Grid = Float[np.ndarray, " points"]
_Features = Float[np.ndarray, "points outputs"]
_Risks = Float[np.ndarray, " ridges"]
_TOLERANCE = 1e-9
_MAX_STEPS = 60


def clipped(features: _Features, bound: float) -> _Features:
    """Rows scaled down to the bound: a function of each row alone."""
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return features * np.minimum(1, bound / np.maximum(norms, bound / 2))


def ridge_risks(
    torus: Torus,
    table: Table,
    features: _Features,
    ridges,
    *,
    bound: float,
    level: float,
    rng: np.random.Generator,
) -> Float[np.ndarray, " ridges"]:
    r"""Excess risk of the certified release (C, u) for labels within 1, at each ridge.

    Args:
        torus: where the risk is taken.
        table: the rows.
        features: at the grid's points; clipped here.
        ridges: lambda, from the same noisy statistics.
        bound: B.
        level: n mu of the Gaussian mechanism; infinite for no noise.
        rng: of the noise.
    """
    rows = clipped(features, bound)
    covariance = (rows * table.shares[:, None]).T @ rows
    correlation = rows.T @ table.labels
    num_outputs = rows.shape[1]
    if np.isfinite(level):
        noise = JointNoise.calibrated(level, 1.0)
        normals = rng.standard_normal(num_normals(num_outputs))
        matrix, vector = noise_of(normals, num_outputs, noise)
        covariance += bound**2 * matrix
        correlation += bound * vector
    values, vectors = np.linalg.eigh(covariance)
    filters = 1 / (np.maximum(values, 0)[:, None] + np.asarray(ridges))
    fitted = rows @ (vectors @ (filters * (vectors.T @ correlation)[:, None]))
    return np.mean((fitted - torus.values[:, None]) ** 2, axis=0)


def objective_risks(
    torus: Torus,
    table: Table,
    features: _Features,
    ridges,
    *,
    level: float,
    rng: np.random.Generator,
) -> _Risks:
    r"""Excess logistic risk after objective perturbation, at each ridge with the same noise.

    The objective is $\frac1n\sum\ell(y_i\beta\cdot z_i) + \frac\lambda2\lVert\beta\rVert^2 +
    b\cdot\beta/n$ with $b/n$ of standard deviation $2/(n\mu)$: features and slopes are within 1.
    """
    rows = clipped(features, 1.0)
    linear = rng.standard_normal(rows.shape[1]) * (2 / level)
    fitted = [rows @ _logistic(rows, table, ridge, linear) for ridge in ridges]
    return np.array([logistic_excess(torus, values) for values in fitted])


def output_risks(
    torus: Torus,
    table: Table,
    features: _Features,
    ridges,
    *,
    level: float,
    rng: np.random.Generator,
) -> _Risks:
    r"""The same after output perturbation: noise of $2/(n\mu\lambda)$ on the coefficients.

    With all eigenfunctions as features it is functional perturbation (Algorithm 5, with the right
    sensitivity $2c_1\kappa/(n\lambda)$): the noise is a Gaussian process of covariance k.
    """
    rows = clipped(features, 1.0)
    normals = rng.standard_normal(rows.shape[1])
    nothing = np.zeros(rows.shape[1])
    fitted = [
        rows @ (_logistic(rows, table, ridge, nothing) + normals * 2 / (level * ridge))
        for ridge in ridges
    ]
    return np.array([logistic_excess(torus, values) for values in fitted])


def logistic_excess(torus: Torus, values: _Grid) -> float:
    """Mean logistic loss above that of the target, labels being drawn from the target's sigmoid."""
    share = expit(torus.values)

    def loss(scores):
        return share * np.logaddexp(0, -scores) + (1 - share) * np.logaddexp(0, scores)

    return float(np.mean(loss(values) - loss(torus.values)))


def drawn_classes(torus: Torus, num_samples: int, rng: np.random.Generator) -> Table:
    """n rows with labels 1 and -1 of probability sigmoid(f) and sigmoid(-f)."""
    counts = rng.multinomial(num_samples, np.full(torus.num_points, 1 / torus.num_points))
    positive = rng.binomial(counts, expit(torus.values))
    return Table(counts / num_samples, (2.0 * positive - counts) / num_samples)


def _logistic(rows: _Features, table: Table, ridge: float, linear) -> Float[np.ndarray, " outputs"]:
    """The minimiser by Newton's method, to a gradient far below every noise."""
    coefficients = np.zeros(rows.shape[1])
    identity = np.eye(rows.shape[1])
    for _ in range(_MAX_STEPS):
        chances = expit(rows @ coefficients)
        residuals = table.shares * (chances - 0.5) - table.labels / 2
        gradient = rows.T @ residuals + ridge * coefficients + linear
        if np.linalg.norm(gradient) < _TOLERANCE * ridge**0.5:
            return coefficients
        weights = table.shares * chances * (1 - chances)
        curvature = (rows * weights[:, None]).T @ rows + ridge * identity
        coefficients = coefficients - np.linalg.solve(curvature, gradient)
    raise RuntimeError("Newton's method did not converge")

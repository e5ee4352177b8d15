r"""Private kernel learning on a circle of grid points, where n rows cost no more than the grid.

Inputs are uniform on G points j/G, on which the Fourier basis is orthonormal up to frequency G/2:
the eigenfunctions of every shift-invariant kernel. Only the counts of the n rows at each point
and the sums of their labels matter, so these are drawn, exactly, and n may be a billion.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from jaxdp.kernels.release.joint_release import JointNoise, noise_of, num_normals
from jaxdp.theory import KernelSpectrum

_Grid = Float[np.ndarray, " points"]
_Features = Float[np.ndarray, "points outputs"]
_Risks = Float[np.ndarray, " ridges"]
_Rng = np.random.Generator
_TOLERANCE = 1e-9
_MAX_STEPS = 60


class Torus(NamedTuple):
    r"""A kernel with $\mu_k \propto k^{-1/\gamma}$ per frequency, of trace 1, and a target.

    eigenvalues: $\mu_k$ at frequencies 0 to G/2 - 1, each but the first for a cosine and a sine.
    coefficients: the target's coefficients on 1, cosine, sine, cosine, ...
    values: the target at the grid's points, at most 1/2.
    """

    eigenvalues: Float[np.ndarray, " frequencies"]
    coefficients: Float[np.ndarray, " modes"]
    values: _Grid

    @classmethod
    def power_law(cls, capacity: float, source: float, num_points: int) -> "Torus":
        r"""$\mu_l \propto l^{-1/\gamma}$ and $\theta_l^2 \propto \mu_l^{2r}/l$, at $l = 2k$."""
        index = np.maximum(2 * np.arange(num_points // 2), 1.0)
        eigenvalues = index ** (-1 / capacity)
        coefficients = np.repeat(eigenvalues**source * index**-0.5, 2)[1:]
        values = synthesised(coefficients[:, None])[:, 0]
        scale = 0.5 / np.abs(values).max()
        trace = 2 * eigenvalues.sum() - eigenvalues[0]
        return cls(eigenvalues / trace, coefficients * scale, values * scale)

    @property
    def num_points(self) -> int:
        """G."""
        return len(self.values)

    def spectrum(self, power: float = 1.0) -> KernelSpectrum:
        """The theory's input, for the rougher kernel with eigenvalues mu^power."""
        return KernelSpectrum(np.repeat(self.powers(power), 2)[1:], self.coefficients**2)

    def powers(self, power: float) -> Float[np.ndarray, " frequencies"]:
        """mu^power, scaled back to trace 1."""
        raised = self.eigenvalues**power
        return raised / (2 * raised.sum() - raised[0])

    def paths(
        self, num_projections: int, rng: np.random.Generator, power: float = 1.0
    ) -> _Features:
        """Sample paths of the kernel over sqrt(M), at the grid's points: exactly distributed."""
        scales = np.sqrt(np.repeat(self.powers(power), 2)[1:] / num_projections)
        return synthesised(scales[:, None] * rng.standard_normal((len(scales), num_projections)))

    def fourier_counts(self, num_frequencies: int, rng: np.random.Generator):
        """How often each frequency is drawn from the kernel's spectrum."""
        weights = self.eigenvalues * np.where(np.arange(len(self.eigenvalues)), 2, 1)
        return rng.multinomial(num_frequencies, weights / weights.sum())

    def fourier_features(self, counts) -> _Features:
        """Paired random features of norm 1 for the frequencies drawn, repetitions included."""
        frequencies = np.repeat(np.arange(len(counts)), counts)
        turns = np.outer(np.arange(self.num_points), frequencies) % self.num_points
        angles = 2 * np.pi * turns / self.num_points
        return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(len(frequencies))


class Table(NamedTuple):
    """n rows: how many fell on each point, and the sum of their labels there, both over n."""

    shares: _Grid
    labels: _Grid


def drawn_table(torus: Torus, num_samples: int, label_noise: float, rng) -> Table:
    """Labels are the target plus or minus `label_noise`, each with probability 1/2."""
    counts = rng.multinomial(num_samples, np.full(torus.num_points, 1 / torus.num_points))
    signs = 2.0 * rng.binomial(counts, 0.5) - counts
    return Table(counts / num_samples, (counts * torus.values + label_noise * signs) / num_samples)


def synthesised(coefficients: Float[np.ndarray, "modes columns"]) -> _Features:
    """Values on the grid of functions of given coefficients on 1, sqrt2 cos, sqrt2 sin, ..."""
    num_points = len(coefficients) + 1
    waves = np.zeros((num_points // 2 + 1, coefficients.shape[1]), complex)
    waves[0] = coefficients[0]
    waves[1:-1] = (coefficients[1::2] - 1j * coefficients[2::2]) / np.sqrt(2)
    return np.fft.irfft(waves, num_points, axis=0) * num_points


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
    rng: _Rng,
) -> _Risks:
    r"""Excess risk of the certified release (C, u) for labels within 1, at each ridge.

    Features at the grid's points are clipped to the bound B; `level` is n mu, inf for no noise.
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
    torus: Torus, table: Table, features: _Features, ridges, *, level: float, rng: _Rng
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
    torus: Torus, table: Table, features: _Features, ridges, *, level: float, rng: _Rng
) -> _Risks:
    r"""Excess logistic risk after noise of $2/(n\mu\lambda)$ on the coefficients.

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

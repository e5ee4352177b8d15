r"""Error of training rows that an attack reads off one private step: DR's law with privacy.

After one step of `DPGD` from 0 that clips every row, in units of $\eta C/n$ and with normalised
features $\psi_i = \varphi_i/|\varphi_i|$, the release is
$\theta = \sum_i s_i \psi_i + \frac{2}{\mu}\,\xi$, $\xi \sim N(0, I_p)$: a replaced row moves the
sum by at most 2C. The attack is least squares (DR (11)) over rows on the sphere of radius $\sqrt d$
and free coefficients.

*Small errors.* If row i moves by $u_i \perp x_i$ and $w_i = \alpha_i u_i$, the fit moves by
$\sum_i \phi'(V x_i) \odot V w_i$, up to the coefficients' part. For V with N(0, 1/d) entries, p
many more than the unknowns, and nearly orthogonal rows, each direction orthogonal to the rows has
the n x n Gauss-Newton matrix $(p/d)\,[(a - b) I + b\,1 1^\top]$ with $a = E\phi'(g)^2$ and
$b = (E\phi'(g))^2$. With $\alpha_i^2 = 1/(p\,E\phi^2)$ and d - 1 directions,

$$ \rho \approx t = \frac{2}{\mu}\sqrt{\kappa\,(d - 1)}, \qquad
   \kappa = \frac{E\phi^2}{a - b}\Bigl(1 - \frac{b}{a + (n-1)\,b}\Bigr), $$

$\kappa = 2n/(n + 1)$ for ReLU. If only one row is unknown, $\kappa = E\phi^2/a$ (1 for ReLU), and t
is also the Cramer-Rao bound of unbiased attacks. Correlations of random rows add a relative O(n/d).
At finite width $t^2 \to t^2/(1 - m/p)$ with m unknowns, as if the p rows of the Jacobian were
Gaussian (for ReLU and three rows 14 % too small at p = 2dn, 1 % at 10dn).

*Large errors.* For one unknown row, least squares maximises $s\,\psi(x)\cdot\theta$ over the
sphere: at overlap $q = \cos\omega$ with the true row a signal $\tfrac\mu2 k(q)$, k the normalised
kernel of wide features, plus a Gaussian field of covariance k. For large d the field's maximum at
that overlap, over $\sqrt d$, is $\sqrt{k'(1)}\sin\omega$ where the replica-symmetric form of a
spherical spin glass holds. Signal plus field is largest where

$$ t = \frac{k'(\cos\omega)}{k'(1)}\tan\omega, \qquad \rho = 2\sin(\omega/2); $$

$t = (1 - \omega/\pi)\tan\omega$ for ReLU. Exact for a linear activation. For ReLU, whose kink
breaks replica symmetry, the full solution is at most 1.2 % smaller. For several rows the curve is
right at first order, and up to 20 % too small at errors around 0.5. The law describes the minimum
of the loss near the truth; an attack that searches for it may also miss whole rows. Source of the
maximum: Crisanti and Sommers (1992), at zero temperature.

*Any attack on one unknown row.* A row x, uniform on the sphere, is released as
$\psi(x) + \tfrac2\mu\xi$, the view of an adversary who knows all other rows. Let
$t = 2\sqrt{\kappa(d-1)}/\mu$ with $\kappa = 1/k'(1)$. At every d,
$\sqrt{E|x - \hat x|^2/d} \ge 2\sin(\omega/2)$ with $\tan\omega = t$, for guesses on the sphere.
Proof for unit vectors: let $\sigma$ be the gradient of the log-likelihood in x along the sphere.
The distribution of x is invariant under the rotations $e^{\tau A}$, A skew, so $E[\hat x\cdot Ax]$
has derivative 0 along them: $E[(\sigma\cdot Ax)(\hat x\cdot Ax)] = -E[\hat x\cdot A^2x]$. Summed
over the d(d - 1)/2 planes of rotation, $\sum A^2 = -(d-1)I$ and $\sum(Ax)(Ax)^\top = I - xx^\top$,
so

$$ (d-1)\,E\cos\omega = E[\sigma\cdot\hat x] \le E[|\sigma|\sin\omega] \le
   \sqrt{E|\sigma|^2\,(1 - (E\cos\omega)^2)}, $$

and $E|\sigma|^2 = (d-1)\,k'(1)\mu^2/4 = (d-1)^2/t^2$. (Van Trees' inequality; the uniform prior has
no information.) Linear features attain it for large d, all features to first order in t.

The least error for large d: samples of the posterior overlap by q with each other and with the row,
where the mutual information is stationary, $q/(1-q) = k'(q)\,\mu^2/4(d-1)$. The best guess is the
direction of their mean, $\cos^2\omega = q$:

$$ t^2 = \frac{k'(\cos^2\omega)}{k'(1)}\tan^2\omega, \qquad \rho = 2\sin(\omega/2). $$

Source of the overlap: spiked tensors (Lesieur et al., 2017), of which k is a mixture; replica
symmetry holds because the row is a sample of its own posterior.
Derived: test_reconstruction_error.py compares with the Gauss-Newton matrix, the linearised problem,
the full solution and the maximum itself; test_optimal_error.py attains the least error by samples
of the posterior.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from jaxdp.core.checks import NotCoveredError, host_array, require_callable, require_count
from jaxdp.core.numerics.hermite import host_function, scaled_coefficients
from jaxdp.problems.rows.infinite_width import infinite_width_kernel

Activation = Callable[[Array], Array]

# Number of Hermite functions in the test for jumps.
_ORDERS = 8
# The slope of the kernel is analytic in the angle, for kinks as well.
_ANGLES = 24
_TABLE, _LEAST_ANGLE = 4001, 1e-5
# Least slope of the kernel at orthogonal rows, where only the activation's linear part has one.
_LEAST_SLOPE = 1e-6


class ActivationMoments(NamedTuple):
    """Moments E phi(g)^2, E phi'(g)^2 and (E phi'(g))^2 for a standard Gaussian g."""

    square: float
    slope_square: float
    squared_slope: float


@functools.lru_cache(maxsize=32)
def activation_moments(activation: Activation) -> ActivationMoments:
    """Moments of phi by quadrature; raises NotCoveredError if phi' vanishes or phi jumps."""
    one = np.ones(1)
    _, square = scaled_coefficients(host_function(activation), one, 1)
    mean, slope_square = scaled_coefficients(host_function(slope_of(activation)), one, 1)
    if not slope_square[0] > 0:
        raise NotCoveredError(
            "the law of reconstruction linearises the features in the inputs: it needs an "
            "activation with a slope"
        )
    orders, _ = scaled_coefficients(host_function(activation), one, 1 + _ORDERS)
    slopes, _ = scaled_coefficients(host_function(slope_of(activation)), one, _ORDERS)
    # By parts: sqrt(k) E phi h_k = E phi' h_{k-1}, and more where phi jumps.
    jump = np.abs(np.sqrt(np.arange(1, 1 + _ORDERS)) * orders[0, 1:] - slopes[0]).max()
    if jump > 1e-6 * np.sqrt(slope_square[0]):
        raise NotCoveredError(
            "the law of reconstruction linearises the features in the inputs: it needs an "
            "activation without jumps"
        )
    return ActivationMoments(float(square[0]), float(slope_square[0]), float(mean[0, 0] ** 2))


def reconstruction_constant(
    activation: Activation, num_samples: int, *, informed: bool = False
) -> float:
    r"""The constant $\kappa$ of the law; infinite if rows cannot be separated (linear phi)."""
    count = require_count("num_samples", num_samples)
    require_callable("activation", activation, "an elementwise function such as jnp.tanh")
    square, a, b = activation_moments(activation)
    if informed or count == 1:
        return square / a
    # A difference of rounded moments may be zero.
    return math.inf if a - b < 1e-9 * a else square / (a - b) * (1 - b / (a + (count - 1) * b))


def one_step_noise_ratio(
    mu: ArrayLike,
    dim: int,
    num_samples: int,
    activation: Activation,
    *,
    informed: bool = False,
    num_features: int | None = None,
) -> Float[np.ndarray, "..."]:
    r"""$t = 2\sqrt{\kappa(d-1)}/\mu$; infinite at $\mu = 0$ and for too few features."""
    mu = host_array("mu", mu)
    if not np.all(mu >= 0):
        raise ValueError(f"expected mu >= 0, got {mu}")
    dim = require_count("dim", dim)
    constant = reconstruction_constant(activation, num_samples, informed=informed)
    num_rows = 1 if informed else num_samples
    share = 0.0
    if num_features is not None:
        unknowns = num_rows * (dim - 1) + num_samples
        share = unknowns / require_count("num_features", num_features)
    if share >= 1:
        return np.full(mu.shape, np.inf)
    scale = 2 * math.sqrt(constant * (dim - 1) / (1 - share))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = scale / mu
    return np.where(np.isinf(mu) | (dim == 1), 0.0, ratio)


def one_step_reconstruction_error(
    mu: ArrayLike,
    dim: int,
    num_samples: int,
    activation: Activation,
    *,
    informed: bool = False,
    num_features: int | None = None,
) -> Float[np.ndarray, "..."]:
    r"""Reconstruction error $\rho$ (DR (12)) after one step of `DPGD` that clips every row.

    Args:
        mu: Gaussian DP of the step under replace-one, `DPGD.mu`; at least 0, infinite for no noise.
        dim: d; rows are on the sphere of radius $\sqrt d$.
        num_samples: n.
        activation: phi, elementwise.
        informed: True if all rows but one are known; the error is then that row's.
        num_features: p; None (default) for many more than the unknowns.

    Returns:
        An array of the shape of `mu`, at most $\sqrt 2$, the error of independent rows.

    Raises:
        NotCoveredError: the activation has no slope, or almost none on average: the error then
            jumps instead of growing.

    Example:
        >>> import jax
        >>> from jaxdp.theory import one_step_reconstruction_error
        >>> one_step_reconstruction_error([10.0, 100.0], 100, 10, jax.nn.relu).round(3).tolist()
        [1.26, 0.286]
    """
    options = {"informed": informed, "num_features": num_features}
    ratio = one_step_noise_ratio(mu, dim, num_samples, activation, **options)
    return saturated_error(ratio, activation)


def mu_at_reconstruction_error(
    error: ArrayLike,
    dim: int,
    num_samples: int,
    activation: Activation,
    *,
    informed: bool = False,
    num_features: int | None = None,
) -> Float[np.ndarray, "..."]:
    r"""The $\mu$ at which one step of `DPGD` leaves a given reconstruction error.

    Args:
        error: between 0 and $\sqrt 2$.
        dim, num_samples, activation, informed, num_features: see `one_step_reconstruction_error`.

    Returns:
        $\mu$, of the shape of `error`.

    Raises:
        ValueError: an error or another argument is out of range.

    Example:
        >>> import jax
        >>> from jaxdp.theory import mu_at_reconstruction_error
        >>> print(f"{float(mu_at_reconstruction_error(0.5, 100, 10, jax.nn.relu)):.1f}")
        57.8
    """
    error = host_array("error", error)
    if not np.all((error > 0) & (error < math.sqrt(2))):
        raise ValueError(f"expected errors between 0 and sqrt(2), got {error}")
    options = {"informed": informed, "num_features": num_features}
    at_one = one_step_noise_ratio(1.0, dim, num_samples, activation, **options)
    angle = 2 * np.arcsin(error / 2)
    return at_one / (kernel_slope(activation)(angle) * np.tan(angle))


def row_error_lower_bound(
    mu: ArrayLike, dim: int, activation: Activation
) -> Float[np.ndarray, "..."]:
    r"""Lower bound on the root mean square error of any attack on one unknown row, at every d.

    $2\sin(\tfrac12\arctan t)$ with $t = 2\sqrt{\kappa(d-1)}/\mu$, for wide features. The attacker
    may know all other rows, all labels and the weights. `privacy.error_lower_bound` holds for all
    features, but is far smaller. Derived: in this module; test_optimal_error.py compares.

    Args:
        mu: Gaussian DP under replace-one, `DPGD.mu`, of one step or several steps together, each
            clipping every row.
        dim: d >= 2; the row is uniform on the sphere of radius $\sqrt d$.
        activation: phi, elementwise.

    Returns:
        A lower bound on $\sqrt{E|x - \hat x|^2/d}$ for guesses on the sphere, of the shape of `mu`.

    Raises:
        NotCoveredError: the activation has no slope.

    Example:
        >>> import jax
        >>> from jaxdp.privacy import error_lower_bound
        >>> from jaxdp.theory import row_error_lower_bound
        >>> bound = row_error_lower_bound(40.7, 20, jax.nn.relu)
        >>> print(f"{bound:.3f}, whatever the features {error_lower_bound(40.7 / 2, 20):.3f}")
        0.211, whatever the features 0.000
    """
    ratio = one_step_noise_ratio(mu, require_count("dim", dim, least=2), 1, activation)
    return 2 * np.sin(np.arctan(ratio) / 2)


def optimal_row_error(mu: ArrayLike, dim: int, activation: Activation) -> Float[np.ndarray, "..."]:
    r"""The error of the best attack on one unknown row, for large d.

    That attack guesses the direction of the posterior mean. Derived: in this module;
    test_optimal_error.py attains it.

    Args:
        mu, dim, activation: see `row_error_lower_bound`.

    Returns:
        $\rho$ between 0 and $\sqrt 2$, of the shape of `mu`.

    Raises:
        NotCoveredError: the activation has almost no linear part: the error would jump.

    Example:
        >>> import jax
        >>> from jaxdp.theory import one_step_reconstruction_error, optimal_row_error
        >>> attack = one_step_reconstruction_error(20.0, 100, 5, jax.nn.relu, informed=True)
        >>> print(f"{optimal_row_error(20.0, 100, jax.nn.relu):.3f}, least squares {attack:.3f}")
        0.869, least squares 0.925
    """
    ratio = one_step_noise_ratio(mu, require_count("dim", dim, least=2), 1, activation)
    slope = kernel_slope(activation)

    def ratio_at(angles):
        # The angle between two samples of the posterior, whose cosine is that of `angles` squared.
        sines, cosines = np.sin(angles), np.cos(angles)
        between = np.arctan2(sines * np.sqrt(1 + cosines**2), cosines**2)
        return np.tan(angles) * np.sqrt(np.maximum(slope(between), 0))

    flattest = math.sqrt(max(float(slope(np.pi / 2)), 0.0))
    return 2 * np.sin(angles_at(ratio, ratio_at, flattest) / 2)


def saturated_error(ratio: ArrayLike, activation: Activation) -> Float[np.ndarray, "..."]:
    r"""$\rho = 2\sin(\omega/2)$ with $t = k'(\cos\omega)\tan\omega/k'(1)$."""
    slope = kernel_slope(activation)
    flattest = float(slope(np.pi / 2))
    found = angles_at(ratio, lambda angles: slope(angles) * np.tan(angles), flattest)
    return 2 * np.sin(found / 2)


def angles_at(
    ratio: ArrayLike,
    ratio_at: Callable[[Float[np.ndarray, " angles"]], Float[np.ndarray, " angles"]],
    flattest: float,
) -> Float[np.ndarray, "..."]:
    r"""The angles in $[0, \pi/2]$ at which a curve that starts as $t = \omega$ has given ratios t.

    `flattest` is the limit of $t\,(\pi/2 - \omega)$ at the end.
    """
    ratio = np.asarray(ratio, np.float64)
    near = np.geomspace(_LEAST_ANGLE, np.pi / 4, _TABLE)
    angles = np.append(near, np.pi / 2 - near[-2::-1])
    ratios = ratio_at(angles)
    if not (flattest > _LEAST_SLOPE and np.all(np.diff(ratios) > 0)):
        raise NotCoveredError(
            "the error after a private step is predicted for activations with a sufficient linear "
            "part; here it would jump"
        )
    # Beyond the table the first order is exact to rounding.
    small, large = np.minimum(ratio, ratios[0]), np.maximum(ratio, ratios[-1])
    found = np.exp(np.interp(np.log(np.maximum(ratio, ratios[0])), np.log(ratios), np.log(angles)))
    found = np.where(ratio < ratios[0], small, found)
    return np.where(ratio > ratios[-1], np.pi / 2 - flattest / large, found)


@functools.lru_cache(maxsize=32)
def kernel_slope(activation: Activation) -> np.polynomial.Chebyshev:
    r"""$k'(\cos\omega)/k'(1)$ as a function of $\omega$ on $[0, \pi/2]$."""
    points = np.cos(np.pi * (np.arange(_ANGLES) + 0.5) / _ANGLES)
    angles = np.append(0.0, np.pi / 4 * (1 + points))
    rows = math.sqrt(2) * np.column_stack([np.cos(angles), np.sin(angles)])
    kernel = infinite_width_kernel(slope_of(activation), rows)[0]
    return np.polynomial.Chebyshev.fit(
        angles[1:], kernel[1:] / kernel[0], _ANGLES - 1, domain=[0, np.pi / 2]
    )


def slope_of(activation: Activation) -> Activation:
    """The derivative phi', elementwise."""

    def slope(values):
        values = jnp.asarray(values)
        try:
            return jax.jvp(activation, (values,), (jnp.ones_like(values),))[1]
        except TypeError as error:
            raise TypeError(
                "expected activation to be written in jax.numpy, as its derivative is taken by "
                f"JAX, got {activation!r}"
            ) from error

    return slope

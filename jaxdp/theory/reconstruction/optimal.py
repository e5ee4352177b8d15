r"""The least error of any attack on one unknown row, where a bound for all features is 0.

A row x that is uniform on the sphere is released as $\psi(x) + \tfrac2\mu\xi$, $\psi$ the
normalised features: what an adversary who knows all other rows sees of a step of `DPGD` that clips
every row. `privacy.error_lower_bound` holds whatever the features are and falls as
$e^{-\mu^2/8d}$; features that are fixed and smooth give far less away. With
$t = 2\sqrt{\kappa(d-1)}/\mu$ and $\kappa = 1/k'(1)$, k the kernel of wide features
(`reconstruction_error`):

*A bound for every attack, at every d.* $\sqrt{E|x - \hat x|^2/d} \ge 2\sin(\omega/2)$ with
$\tan\omega = t$, for guesses on the sphere. Proof, for unit vectors. Let $\sigma$ be the gradient
of the log-likelihood in x along the sphere. The law of x is invariant under the rotations
$e^{\tau A}$, A skew, so that the derivative of $E[\hat x\cdot Ax]$ along them vanishes:
$E[(\sigma\cdot Ax)(\hat x\cdot Ax)] = -E[\hat x\cdot A^2x]$. Summed over the d(d - 1)/2 planes of
rotation, $\sum A^2 = -(d-1)I$ and $\sum(Ax)(Ax)^\top = I - xx^\top$, so

$$ (d-1)\,E\cos\omega = E[\sigma\cdot\hat x] \le E[|\sigma|\sin\omega] \le
   \sqrt{E|\sigma|^2\,(1 - (E\cos\omega)^2)}, $$

and $E|\sigma|^2 = (d-1)\,k'(1)\mu^2/4 = (d-1)^2/t^2$. The bound is van Trees' inequality without a
price for the prior, because the uniform law has none. The bound is attained by linear features for
large d, and to first order in t by all.

*The least error itself, for large d.* The posterior's samples overlap by q with each other and with
the row, where the mutual information is stationary: $q/(1-q) = k'(q)\,\mu^2/4(d-1)$. The best guess
is the direction of their mean, $\cos^2\omega = q$:

$$ t^2 = \frac{k'(\cos^2\omega)}{k'(1)}\tan^2\omega, \qquad \rho = 2\sin(\omega/2). $$

Least squares has $t = \tan\omega\,k'(\cos\omega)/k'(1)$ (`reconstruction_saturation`): the same to
first order, and the same for a linear activation. Source of the overlap: spiked tensors (Lesieur
et al., 2017), of which k is a mixture; no replicas break, because the row is a sample of its own
posterior.

Derived: test_optimal_error.py compares, and attains the least error by
samples of the posterior.
"""

import math

import numpy as np
from jaxtyping import ArrayLike, Float

from jaxdp.core.checks import require_count
from jaxdp.theory.reconstruction.error import one_step_noise_ratio
from jaxdp.theory.reconstruction.saturation import Activation, angles_at, kernel_slope


def row_error_lower_bound(
    mu: ArrayLike, dim: int, activation: Activation
) -> Float[np.ndarray, "..."]:
    r"""Lower bound on the root mean square error of any attack on one unknown row, at every d.

    $2\sin(\tfrac12\arctan t)$ with $t = 2\sqrt{\kappa(d-1)}/\mu$. The attacker may know all other
    rows, all labels and the weights. Unlike `privacy.error_lower_bound` it reads the features (wide
    ones), and is of the order of what attacks reach.

    Derived: in this module; tests/agreement/theory/reconstruction/test_optimal_error.py compares.

    Args:
        mu: Gaussian DP of the step under replace-one, `DPGD.mu`, every row clipped; several steps
            that clip every row, seen one by one, are one of their common mu.
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
    ratio = one_step_noise_ratio(mu, _at_least_two(dim), 1, activation)
    return 2 * np.sin(np.arctan(ratio) / 2)


def optimal_row_error(mu: ArrayLike, dim: int, activation: Activation) -> Float[np.ndarray, "..."]:
    r"""The error of the best attack on one unknown row, for large d.

    The attack is the informed adversary's optimal estimator, the direction of the posterior mean.

    Derived: in this module; tests/agreement/theory/reconstruction/test_optimal_error.py attains it.

    Args:
        mu, dim, activation: as in `row_error_lower_bound`.

    Returns:
        $\rho$ of shape `mu`; from 0 to $\sqrt 2$.

    Raises:
        NotCoveredError: the activation has almost no linear part: the error would jump.

    Example:
        >>> import jax
        >>> from jaxdp.theory import one_step_reconstruction_error, optimal_row_error
        >>> attack = one_step_reconstruction_error(20.0, 100, 5, jax.nn.relu, informed=True)
        >>> print(f"{optimal_row_error(20.0, 100, jax.nn.relu):.3f}, least squares {attack:.3f}")
        0.869, least squares 0.925
    """
    ratio = one_step_noise_ratio(mu, _at_least_two(dim), 1, activation)
    slope = kernel_slope(activation)

    def ratio_at(angles):
        # The angle between two samples of the posterior, whose cosine is that of `angles` squared.
        sines, cosines = np.sin(angles), np.cos(angles)
        between = np.arctan2(sines * np.sqrt(1 + cosines**2), cosines**2)
        return np.tan(angles) * np.sqrt(np.maximum(slope(between), 0))

    flattest = math.sqrt(max(float(slope(np.pi / 2)), 0.0))
    return 2 * np.sin(angles_at(ratio, ratio_at, flattest) / 2)


def _at_least_two(dim: int) -> int:
    if require_count("dim", dim) < 2:
        raise ValueError(f"expected dim >= 2, got {dim}")
    return dim

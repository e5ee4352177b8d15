r"""What the published algorithms share: their multiplier, and their bound on a projection.

Source: PK Proposition 2 and Lemma 7. The multiplier is loose for small epsilon, which hides wrong
sensitivities, and too small for large epsilon, where the proposition's proof does not reach.
"""

import math

from jaxdp.core.checks import require_count, require_positive
from jaxdp.kernels.base import AbstractKernel
from jaxdp.privacy.arguments import check_delta


def classic_multiplier(delta: float) -> float:
    r"""$c(\delta) = 1 + \sqrt{2 \log(1/\delta)}$, of noise $\Delta c/\epsilon$.

    Printed for every epsilon. The proof needs $\epsilon \le 2c$, and the statement is false from
    $\epsilon$ = 17.7, 20.0 and 21.1 on at $\delta = 1000^{-1.1}$, $10^{-5}$ and $10^{-6}$.

    Args:
        delta: in (0, 1).

    Source: PK Proposition 2. Derived: tests/kernels/test_counterexamples.py.
    """
    check_delta(delta)
    return 1 + math.sqrt(2 * math.log(1 / delta))


def projection_factor(num_projections: int, log_inverse: float) -> float:
    r"""$q = 1 + 2\sqrt{L/M} + 2L/M$, with $P(|h_M(x)|^2 > \kappa^2 q) \le e^{-L}$ for each x.

    $|h_M(x)|^2$ is k(x, x) times a chi-square variable over its M degrees of freedom. PK's
    Algorithms 1 and 2 print the root over both terms, $1 + 2\sqrt{L/M + 2L/M}$, which is below
    the lemma for $M < 1.866 L$; their proofs use the lemma, and so does this.

    Args:
        num_projections: M >= 1.
        log_inverse: L >= 0, the logarithm of the inverse probability.

    Source: PK Lemma 7.
    """
    ratio = log_inverse / require_count("num_projections", num_projections)
    return 1 + 2 * math.sqrt(ratio) + 2 * ratio


def kernel_size(kernel: AbstractKernel, input_bound: float | None) -> float:
    r"""$\kappa$, the largest $\sqrt{k(x, x)}$ over inputs of that norm at most.

    Raises:
        TypeError, ValueError: it is infinite, or the norm is no number > 0.
    """
    if input_bound is not None:
        require_positive("input_bound", input_bound)
    size = kernel.bound(math.inf if input_bound is None else input_bound)
    if not math.isfinite(size):
        raise ValueError(
            f"expected a bounded kernel, got {type(kernel).__name__}: give input_bound, a public "
            "norm that inputs are scaled down to"
        )
    return size

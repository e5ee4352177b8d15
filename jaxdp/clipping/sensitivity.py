r"""How much more than C one record can move a computed sum of clipped gradients: a proved bound.

Claim. Let F be the exact value of high + low that `clipped_gradient_sum_in_parts` returns at clip
norm C, over a batch of n places and for a model of d weights. Putting zero in the place of one
record (masking it out) moves F by at most C (1 + b) in Euclidean norm over all weights together,
and replacing the record by another moves F by at most 2 C (1 + b), with b = `sensitivity_excess`. b
depends on public numbers only.

Assumed. (a) $2^{-60} \le C \le 2^{60}$, $n \le 2^{26}$, $d \le 2^{40}$. (b) Arithmetic is binary32
or binary64: additions and products, also in matrix products and fused ones, are right to a factor
in [1 - u, 1 + u], $u = 2^{-24}$, and sums take their terms in any order; divisions and square roots
are right to 4u; numbers below $2^{-126}$ in size may become zero or lose digits, which changes them
by at most $2^{-126}$. That is so on CPUs and GPUs; on TPUs products of the highest precision are
made of bfloat16 pieces and are *not* covered. (c) The compiler does not reorder the additions of
`two_sum`, and stores the results of a loop of unknown length; tests check both, and
`why_sums_are_unproved` the first in each process that adds secret noise. (d) The program treats
each record of a batch alone: the factor and the stored numbers of one record, and the order of each
sum, are equal to the last bit whatever the other records are. If a device adds in the order of
arrival (some scatters on a GPU), that order must be fixed (XLA's
`--xla_gpu_deterministic_ops=true`). (e) The loss is a function of one record, which `trace_loss`
checks as far as it can see.

Write $\gamma_k = ku/(1 - ku)$; k roundings change a number by a factor in $[1 - \gamma_k, 1 +
\gamma_k]$.

(i) *The norm.* Norm and sum read the same stored numbers of a record's gradient g (`settled`): the
bound is for the numbers that are added, however far they are from the true gradient. A piece of at
most K = 1024 numbers (`CHUNK`) is divided by its unit (4u), squared (twice 4u, and u), summed (K -
1 additions), its root taken (4u; the root halves what came before: (8 + 1 + 1023)/2 = 516), and
multiplied by its unit (u): 521 roundings. Squares that underflow are smaller than $2^{-126}$ with a
largest one of 1, together less than the four roundings by which 525 exceeds 521. A vector longer
than K is cut into at least 2 and less than twice as many pieces as it must be, and their norms are
measured in turn, so that k numbers take at most $1 + \log_{256} k$ levels. An outer product takes
the levels of both its vectors, one product, and the levels of the blocks it may have; at last come
the levels of the vector of all weights' norms. With at most d entries and at most d weights there
are $\Lambda \le 4 + 2 \log_{256} d$ levels, and the computed norm N has $\|g\| \le N (1 +
\gamma_{525 \Lambda + 1})$.

(ii) *The factor.* f = 1 if N <= C', else C'/N, where C' is C in float32: at most $C (1 + u)$, and
divided with 4u; a factor below $2^{-126}$ is set to zero. So in exact arithmetic $\|f g\| \le X = C
(1 + \rho)$, $\rho = \gamma_{525 \Lambda + 10}$. Records whose computed norm is infinite or NaN are
set to zero.

(iii) *A block* of at most B records sums products of f and entries of g; for an outer product $(f
\delta) x$ or $\delta (f x)$, rounded once more. Every term is rounded at most B + 1 times, in any
order, so each coordinate of the computed sum is within $\gamma_{B + 1} \sum_i |f_i g_i|$ of the
exact one, and the whole within $\gamma_{B + 1} B X$. Two neighbours have the same blocks but one.
The exact sums of that one differ by X (2X if the record is replaced), and both computed sums err:
together $X (1 + 2 B \gamma_{B + 1})$, or less than twice that.

(iv) *Blocks are added* as pairs. Let $A = n X (1 + \gamma_{B + 1}) (1 + 2^{-20})$: no partial sum
is longer. The error of `two_sum` is exact, of size at most u times its sum. Adding up to eight
blocks at once rounds their errors and partial sums of those, at most eight times, each at most $8 u
A$ in norm: $8 u^2 A$ a block. Adding two pairs rounds twice, $5 u^2 A$ at most, and if the second
pair is one block its low part is zero and $2 u^2 A$ is enough. Every microbatch is a block or part
of one, or is made of blocks of at least 128 records. So the whole is within $4 n u^2 A$ of the sum
of the computed blocks; every other device (`sum_over_devices`) adds $5 u^2 A$. Twice that for the
two neighbours. If the loss computes in binary64 with weights in binary32, blocks are added in
binary64, within $4 n 2^{-106} A$, and the total is cut into two numbers of 24 bits, which changes
it by at most $2 u^2 A$: together less than $4 n u^2 A$ again. Between the sum of the blocks and the
noise nothing else is rounded: entries are moved, their signs changed, types widened.

(v) *Underflow* changes a coordinate by at most $2^{-126}$ in each of at most 32 operations a
record: $64 n \sqrt d\, 2^{-126}$ for both neighbours, at most $n \sqrt d\, 2^{-60}$ times C. It
cannot be enlarged afterwards: factors of products of two entries of a record, and scaled ones, are
set to zero below $2^{-126}$ (`flushed`) before norm and sum read them.

(vi) *Rounding of the total* to float64 (`TwoPartSum.in_float64`) changes it by at most $2^{-53} A$,
that to float32 (`clipped_gradient_sum`) by at most u A, for each of the neighbours.

Derived: tests/unit/clipping/test_sensitivity.py attacks every step of it.
"""

import math

from jaxdp.clipping.two_part_sum import BLOCK_LENGTH
from jaxdp.core.checks import require_count

_ROUNDING = 2.0**-24
_MOST_PLACES, _MOST_WEIGHTS = 2**26, 2**40


def sensitivity_excess(
    num_places: int,
    num_weights: int,
    *,
    microbatch_size: int | None = None,
    num_devices: int = 1,
    is_rounded: bool = False,
) -> float:
    """b: one record moves the computed sum by at most C (1 + b), or 2C (1 + b) if it is replaced.

    Noise calibrated to sensitivity C has to be multiplied by 1 + b. This module's docstring proves
    it for IEEE arithmetic (not TPUs), records that are computed each alone, and on a GPU sums in
    fixed order (`--xla_gpu_deterministic_ops=true`). Most of b is rounding in blocks, $2 B (B + 1)
    2^{-24}$: 0.8 % for B = 256.

    Args:
        num_places: n, the length of the batch, masked-out places included.
        num_weights: d, the number of trained weights, or more.
        microbatch_size: the microbatch size of the sum; below 256 it shortens blocks.
        num_devices: the number of parts that `sum_over_devices` adds, with n the length of the
            whole batch; 1 under `jit`, on any number of devices.
        is_rounded: whether the sum is the total of `clipped_gradient_sum`, rounded to float32,
            instead of the two parts.

    Returns:
        b >= 0, in units of C; infinite if the proof does not apply.

    Raises:
        ValueError: a number is less than 1, n is more than 2^26 or d more than 2^40.
        TypeError: a number is not whole.

    Example:
        >>> from jaxdp.clipping import sensitivity_excess
        >>> print(f"{sensitivity_excess(num_places=512, num_weights=10_000):.2%}")
        0.81%
    """
    places = require_count("num_places", num_places)
    weights = require_count("num_weights", num_weights)
    devices = require_count("num_devices", num_devices)
    if places > _MOST_PLACES or weights > _MOST_WEIGHTS:
        raise ValueError(
            f"expected at most 2^26 places and 2^40 weights, got {places} and {weights}"
        )
    block = min(places, BLOCK_LENGTH)
    if microbatch_size is not None:
        block = min(block, require_count("microbatch_size", microbatch_size))
    levels = math.floor(4 + 2 * math.log(weights, 256) + 1e-9)
    norm = 1 + _gamma(525 * levels + 10)
    in_block = _gamma(block + 1)
    longest = places * norm * (1 + in_block) * (1 + 2.0**-20)
    total = norm * (1 + 2 * block * in_block)
    total += 2 * (4 * places + 5 * (devices - 1)) * _ROUNDING**2 * longest
    total += places * math.sqrt(weights) * 2.0**-60
    total += 2 * longest * (_ROUNDING if is_rounded else 2.0**-53)
    # The formula itself is evaluated in float64.
    return math.inf if total > 2 else (total - 1) * (1 + 2.0**-30) + 2.0**-45


def _gamma(num_roundings: int) -> float:
    return num_roundings * _ROUNDING / (1 - num_roundings * _ROUNDING)

"""Verdict on a leak: training rows were found, were not found, or the attack cannot decide."""

import enum
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from jaxdp.attacks.base import AbstractTarget
from jaxdp.attacks.measures import reconstruction_error, row_errors
from jaxdp.attacks.objective import checked_loss
from jaxdp.attacks.optimisers.base import onto_sphere
from jaxdp.attacks.reconstruction import Reconstruction, require_target
from jaxdp.core.arrays import as_float
from jaxdp.core.checks import require_finite, require_kind, require_positive, require_shape
from jaxdp.core.display import AbstractExplained, Explanation, Row, in_words

# Singular values below this, relative to the largest, are rounding of a smaller rank.
_INDEPENDENT = 1e-4
# A loss below this share of that expected for rows fitted to noise is better than chance. On relu
# features the best of eight searches reached 0.3 to 1.2 of it at p = 1.3 dn, and 0.8 from 4 dn on.
_FAR_BELOW_CHANCE = 0.1
# Random sets of rows: an uninformed guess is nearer than all of them with probability 1/100.
_CHANCE_DRAWS, _CHANCE_SEED = 99, 0x6A617864_70636861


class Verdict(enum.IntEnum):
    """The verdict of an attack on a leak.

    Attributes:
        FOUND: training rows were found.
        NEAR: no training row was found, but rows nearer to them than 99 sets of random rows.
        NOT_FOUND: the attack applies and found none; another start or more passes may.
        UNDETERMINED: does not apply: too few features, other rows explain them as well.
        NOT_IN_SPAN: does not apply: the rows' features do not span the parameters.
        UNKNOWN: the rows explain little, and the reason is unknown without the true ones.
        EXPLAINED: the rows explain nearly all; only the true ones show whether they are those.

    Example:
        >>> from jaxdp.attacks import Verdict
        >>> Verdict.NOT_FOUND.applies, Verdict.NOT_IN_SPAN.applies, Verdict.EXPLAINED.applies
        (True, False, None)
    """

    FOUND = 0
    NOT_FOUND = 1
    UNDETERMINED = 2
    NOT_IN_SPAN = 3
    UNKNOWN = 4
    EXPLAINED = 5
    NEAR = 6

    @property
    def applies(self) -> bool | None:
        """Whether the attack's conditions hold; None if that is unknown, and for NEAR."""
        if self in (Verdict.UNKNOWN, Verdict.EXPLAINED, Verdict.NEAR):
            return None
        return self in (Verdict.FOUND, Verdict.NOT_FOUND)

    def __str__(self) -> str:
        return _IN_WORDS[self]


_IN_WORDS = {
    Verdict.FOUND: "training rows were found",
    Verdict.NEAR: (
        "no training row was found exactly, but rows near them were, nearer than rows drawn by "
        "chance"
    ),
    Verdict.NOT_FOUND: "nothing was found though the attack applies; try more passes or starts",
    Verdict.UNDETERMINED: (
        "the attack does not apply: too few features, other rows explain the parameters as well"
    ),
    Verdict.NOT_IN_SPAN: (
        "the attack does not apply: the rows' features do not span the parameters, as after noise, "
        "Adam, weight decay or training of all layers"
    ),
    Verdict.UNKNOWN: (
        "the rows that were found explain too little of the parameters to tell anything: without "
        "the true rows nobody knows whether some are among them, or whether the attack applies"
    ),
    Verdict.EXPLAINED: (
        "rows that explain nearly all of the parameters were found; whether they are the training "
        "rows cannot be told without them"
    ),
}


class LeakReport(AbstractExplained, eqx.Module):
    r"""An attack's verdict, and its evidence, which is None if it needs unknown true rows.

    Attributes:
        verdict: the verdict; `str(verdict)` puts it in words.
        errors: $|x_i - \hat x_{\pi(i)}|/\sqrt d$ for each true row.
        true_loss: the loss of the true rows; above the tolerance they do not span the parameters.
        equations, unknowns: $r(p - n)$, with r the rank of the parameters, and $n(d - 1)$.
        loss: the loss of the found rows.
        chance: mean error of random rows.
        num_found: number of true rows that were found.
    """

    verdict: Verdict = eqx.field(static=True)
    errors: Float[np.ndarray, " n"] | None
    true_loss: float | None
    equations: int = eqx.field(static=True)
    unknowns: int = eqx.field(static=True)
    loss: float | None = None
    chance: float | None = None
    num_found: int | None = None

    def __str__(self) -> str:
        words = str(self.verdict)
        if self.verdict is Verdict.FOUND and self.errors is not None and self.num_found is not None:
            return f"{self.num_found} of {len(self.errors)} {words}"
        if self.verdict is Verdict.EXPLAINED and self.loss is not None:
            return words.replace("nearly all", f"all but {self.loss:.2g}")
        return words

    def _explanation(self):
        rows = (
            Row("errors", in_words(self.errors, 1), "of each true row, over sqrt(d)"),
            Row("chance", in_words(self.chance), "mean error of rows drawn by chance"),
            Row("true_loss", in_words(self.true_loss), "of the attack at the true rows"),
            Row("equations", in_words(self.equations), "r (p - n), r the rank of the parameters"),
            Row("unknowns", in_words(self.unknowns), "n (d - 1)"),
            Row("loss", in_words(self.loss), "of the attack at the rows that were found"),
        )
        return Explanation("What leaks", rows, (str(self),))


def leak_report(
    target: AbstractTarget,
    found: Reconstruction,
    true_inputs: Any = None,
    *,
    allow_sign_flips: bool = False,
    found_below: float = 0.1,
    tolerance: float = 1e-7,
) -> LeakReport:
    r"""Judge whether an attack found a leak, and if not, whether it could have.

    Finding nothing is no evidence of safety unless the attack applies: the parameters must lie in
    the span of the rows' features (not after noise, Adam, weight decay, or large changes of all
    layers), and r independent outputs must give enough equations, $r(p - n)$, for the $n(d - 1)$
    directions of the rows. With the true rows, their loss shows the first.

    Without the true rows, a loss below the tolerance means that the rows are found, given enough
    equations. A larger loss is still better than chance if it is below a tenth of $1 - dn/p$, the
    loss of dn numbers fitted to noise (for r outputs of similar size $1 - n(d - 1 + r)/(rp)$).
    Otherwise the conditions fail for certain only if the parameters' rank exceeds n. A high loss is
    no sign of safety: after noise, or training of all layers, the true rows have one. Source: DR
    Sections 4 and 5. Derived: the two counts for several outputs, test_leak.

    Args:
        target, found: the attacked target, and the result of `reconstruct`.
        true_inputs: the true rows, (n, d), if known; scaled to norm $\sqrt d$, as the found ones.
        allow_sign_flips: True for odd and even activations, as in `row_errors`.
        found_below: error below which a row counts as found.
        tolerance: bound on the loss, as in `reconstruct`.

    Returns:
        The verdict and its evidence.

    Example:
        >>> import jax, numpy as np
        >>> from jaxdp.attacks import leak_report, reconstruct, span_target
        >>> weights = np.random.default_rng(0).normal(size=(100, 5))
        >>> target = span_target(np.eye(2, 5), weights, jax.nn.relu)
        >>> found = reconstruct(target, 2, key=jax.random.key(2))
        >>> str(leak_report(target, found, np.eye(2, 5)).verdict)
        'training rows were found'
    """
    require_target(target)
    require_kind("found", found, Reconstruction, "what reconstruct(...) returned")
    require_positive("found_below", found_below)
    require_positive("tolerance", tolerance)
    num_samples, dim = found.inputs.shape
    columns = np.asarray(target.parameters, np.float64).reshape(target.num_features, -1)
    values = np.linalg.svd(columns, compute_uv=False)
    # The rank of the parameters, and the effective number of outputs in the loss.
    rank = int((values > _INDEPENDENT * values[0]).sum())
    num_alike = float((values**2).sum() / values[0] ** 2)
    equations = rank * (target.num_features - num_samples)
    unknowns = num_samples * (dim - 1)
    has_enough = equations >= unknowns
    errors = true_loss = chance = num_found = None
    is_explained = is_near = False
    if true_inputs is None:
        is_found = found.converged and has_enough
        fitted = num_samples * (dim - 1 + num_alike) / (num_alike * target.num_features)
        is_explained = not found.converged and found.loss <= _FAR_BELOW_CHANCE * (1 - fitted)
        is_in_span = True if found.converged else (None if rank <= num_samples else False)
    else:
        rows = as_float(true_inputs, "true_inputs").astype(found.inputs.dtype)
        require_shape("true_inputs", rows, (num_samples, dim))
        require_finite("true_inputs", rows)
        rows = onto_sphere(rows)
        require_finite("directions of true_inputs", rows)
        errors = row_errors(rows, found.inputs, allow_sign_flips=allow_sign_flips)
        draws = _errors_of_chance(rows, allow_sign_flips)
        chance, is_near = float(draws.mean()), bool(errors.mean() < draws.min())
        true_loss = checked_loss(target, rows)
        num_found = int((errors < found_below).sum())
        is_found = num_found > 0
        is_in_span = true_loss is not None and true_loss <= tolerance
    if is_found:
        verdict = Verdict.FOUND
    elif is_near:
        verdict = Verdict.NEAR
    elif is_explained:
        verdict = Verdict.EXPLAINED
    elif is_in_span is False:
        verdict = Verdict.NOT_IN_SPAN
    elif not has_enough:
        verdict = Verdict.UNDETERMINED
    else:
        verdict = Verdict.UNKNOWN if is_in_span is None else Verdict.NOT_FOUND
    counts = equations, unknowns
    return LeakReport(verdict, errors, true_loss, *counts, found.loss, chance, num_found)


def _errors_of_chance(rows: Array, allow_sign_flips: bool) -> np.ndarray:
    # A common seed might redraw the user's own random rows.
    random = np.random.default_rng(_CHANCE_SEED)

    def error() -> float:
        # One set at a time, because images have thousands of entries a row.
        drawn = random.standard_normal(rows.shape)
        drawn *= rows.shape[1] ** 0.5 / np.linalg.norm(drawn, axis=1, keepdims=True)
        return reconstruction_error(rows, drawn, allow_sign_flips=allow_sign_flips)

    return np.array([error() for _ in range(_CHANCE_DRAWS)])

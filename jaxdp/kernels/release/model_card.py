"""The model card of a released function: what it is, what it was learnt of, and at what price.

A card is made of the function and of the public record of its fit. Whoever has the one may see the
other: nothing else of the table is in it. The term is that of Mitchell et al., "Model cards for
model reporting" (2019).
"""

import equinox as eqx
import numpy as np

from jaxdp.core.checks import require_count, require_kind
from jaxdp.core.display import Explanation, Row, as_text
from jaxdp.kernels.release.tables import Columns
from jaxdp.privacy import Cost

_LIMITS = (
    "the guarantee is about one row of the table: it promises no accuracy, and no fairness to any "
    "group; test the function on data of your own"
)


class FitRecord(eqx.Module):
    """What is public of a fit besides the function that it released; model cards are made of it.

    Args:
        num_samples: n, rows of the table.
        learnt: what the function is and how it was learnt, in words; empty: what was released.
        inputs: of each column its name, and its public range or categories in words.
        ledger: of each release its share of mu^2, its mu, and what it is in words.
        noise_std: what the noise makes of each coefficient, as planned; none where no plan tells.
        forecast: what this budget was expected to buy, in words, where that was asked.
        has_logits: whether values are log odds, so that they tell the chance of a class.

    Raises:
        ValueError: there are no rows.

    Example:
        >>> from jaxdp.kernels import FitRecord
        >>> FitRecord(2000, "least squares", (("age", "17 to 90"),)).num_samples
        2000
    """

    num_samples: int = eqx.field(static=True)
    learnt: str = eqx.field(static=True, default="")
    inputs: tuple[tuple[str, str], ...] = eqx.field(static=True, default=())
    ledger: tuple[tuple[float, float, str], ...] = eqx.field(static=True, default=())
    noise_std: tuple[float, ...] = eqx.field(static=True, default=())
    forecast: str = eqx.field(static=True, default="")
    has_logits: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        require_count("num_samples", self.num_samples, least=1)
        for name in ("learnt", "forecast"):
            require_kind(name, getattr(self, name), str, "a text")


def card_of(what: str, cost: Cost, columns: Columns | None, record: FitRecord | None) -> str:
    """The model card, as text, of a function whose fit released `what`."""
    rows = [Row("learnt", (record.learnt if record else "") or what)]
    if columns is not None and columns.label is not None:
        rows.append(Row("target", columns.label))
    if columns is not None and columns.classes is not None:
        rows.append(Row("classes", ", ".join(columns.classes)))
    if record is not None and record.inputs:
        rows += _under("inputs", [f"{name}: {known}" for name, known in record.inputs])
    elif columns is not None:
        rows.append(Row("inputs", ", ".join(columns.inputs)))
    if record is not None:
        rows.append(Row("rows", str(record.num_samples), "n, public"))
    rows += [
        Row("epsilon", f"{cost.epsilon:.4g}", "of this release"),
        Row("delta", f"{cost.delta:g}", "of this release"),
        Row("mu", "unknown" if cost.mu is None else f"{cost.mu:.4g}", "Gaussian DP"),
        Row("adjacency", cost.adjacency, "who the neighbours are"),
        Row("noise", "certified" if cost.is_certified else "simulated", "in machine arithmetic"),
    ]
    if record is not None:
        rows += _under("ledger", [f"{share:.1%}  {what}" for share, _, what in record.ledger])
        if record.noise_std:
            middle, most = np.median(record.noise_std), max(record.noise_std)
            rows.append(Row("noise_std", f"{middle:.3g}, at most {most:.3g}", "of a coefficient"))
        if record.forecast:
            rows.append(Row("forecast", record.forecast))
    return as_text(Explanation("Model card", tuple(rows), (*cost.assumptions, _LIMITS)))


def _under(name: str, values: list[str]) -> list[Row]:
    """Rows of one name, which stands in the first."""
    return [Row("" if place else name, value) for place, value in enumerate(values)]

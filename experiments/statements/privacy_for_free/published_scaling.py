"""Columns scaled as PF's experiments scale them."""

from typing import Any

import numpy as np

from jaxdp.data.standardisation import ColumnScaling


def published_column_scaling(rows: Any) -> ColumnScaling:
    """Scaling of each column by its standard deviation + 1e-8, as PF's experiments have it.

    Only to reproduce them: a pixel that is dark in all training rows is multiplied by 1e8, and so
    is every other image in which it is not dark, which ruins the prediction there. With few
    training rows most images are of that kind.
    """
    rows = np.asarray(rows)
    deviations = rows.std(axis=0, dtype=np.float64)
    return ColumnScaling(rows.mean(axis=0, dtype=np.float64), 1 / (deviations + 1e-8))

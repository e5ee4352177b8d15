"""Checks of labels: a vector of what the loss is defined for. Labels that are traced pass."""

from typing import Any

import numpy as np
from jaxtyping import Float

from jaxdp.core.checks import concrete, require_finite, require_shape

# So many distinct labels are shown in an error, which tells an encoding from another.
_SHOWN = 3


def require_real_labels(name: str, labels: Any) -> None:
    """Raise unless the labels are a vector of finite real numbers."""
    _known_vector(name, labels)


def require_sign_labels(name: str, labels: Any, loss: str, *, are_private: bool = False) -> None:
    """Raise unless the labels are a vector of -1 and +1; the error names others unless private."""
    known = _known_vector(name, labels)
    if known is None or np.all(np.abs(known) == 1):
        return
    values = np.unique(known)
    shown = ", ".join(map(str, values[:_SHOWN].tolist())) + ", ..." * (len(values) > _SHOWN)
    came = "others" if are_private else f"values {shown}"
    is_binary = np.isin(values, (0, 1)).all()
    hint = "; of labels 0 and 1 give 2 * labels - 1" if is_binary else ""
    raise ValueError(f"expected {name} -1 or +1 for the {loss} loss, got {came}{hint}")


def require_class_labels(
    name: str, labels: Any, num_classes: int, *, are_private: bool = False
) -> None:
    """Raise unless the labels are a vector of whole numbers from 0 to num_classes - 1."""
    known = _known_vector(name, labels)
    if known is None:
        return
    is_class = (known >= 0) & (known < num_classes) & (known == np.floor(known))
    if not is_class.all():
        came = "others" if are_private else f"{known[~is_class][0]:g}"
        raise ValueError(
            f"expected {name} to be whole numbers from 0 to {num_classes - 1} "
            f"(num_classes={num_classes}), got {came}"
        )


def _known_vector(name: str, labels: Any) -> Float[np.ndarray, " n"] | None:
    known = concrete(labels, name)
    if known is not None:
        require_shape(name, known, (None,))
        require_finite(name, known)
    return known

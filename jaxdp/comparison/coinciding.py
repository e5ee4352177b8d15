"""Predictions that coincide, such as the bounds of isotropic problems: only one is shown."""

from collections.abc import Sequence

import numpy as np

from jaxdp.core.trajectory import Trajectory

# Relative: what predictions in float32 are good for.
_SAME = 1e-4


def distinct(predictions: Sequence[Trajectory]) -> list[Trajectory]:
    """The predictions that agree with no earlier one; one with a predicted spread is kept."""
    return [predictions[place] for place in _originals(predictions)]


def coincidences(predictions: Sequence[Trajectory]) -> list[str]:
    """A sentence for each shown prediction with which others coincide."""
    return [
        f"{_listed(same)} agree{'s' * (len(same) == 1)} with {name_of(original)} to "
        f"{max(_distance(original, each) for each in same):.0e} of the risk: not shown"
        for original, same in coinciding(predictions)
    ]


def coinciding(predictions: Sequence[Trajectory]) -> list[tuple[Trajectory, list[Trajectory]]]:
    """Each prediction that is shown, with the later ones that coincide with it.

    A prediction with a spread is always shown.
    """
    found = [
        (predictions[place], [predictions[other] for other in others])
        for place, others in _originals(predictions).items()
    ]
    return [(original, same) for original, same in found if same]


def _originals(predictions: Sequence[Trajectory]) -> dict[int, list[int]]:
    """The places of the predictions that are shown, and of those that coincide with each."""
    found: dict[int, list[int]] = {}
    for place, each in enumerate(predictions):
        equal = (other for other in found if _distance(predictions[other], each) <= _SAME)
        original = next(equal, None) if each.std is None else None
        if original is None:
            found[place] = []
        else:
            found[original].append(place)
    return found


def _distance(first: Trajectory, second: Trajectory) -> float:
    """The largest relative difference of the risks, over all records and the release."""
    one, other = (
        np.append(np.asarray(each.risk, np.float64), np.asarray(each.final_risk, np.float64))
        for each in (first, second)
    )
    if one.shape != other.shape or not (np.isfinite(one).all() and np.isfinite(other).all()):
        return np.inf
    scale = np.maximum(np.abs(one), np.abs(other))
    return float((np.abs(one - other) / np.where(scale > 0, scale, 1)).max())


def name_of(prediction: Trajectory) -> str:
    """The name of a prediction in tables and legends."""
    return prediction.label or "predicted"


def _listed(predictions: Sequence[Trajectory]) -> str:
    *first, last = (name_of(each) for each in predictions)
    return f"{', '.join(first)} and {last}" if first else last

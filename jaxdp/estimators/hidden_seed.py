"""The secret seed of an estimator, which scikit-learn would print with its other parameters.

scikit-learn shows what `get_params` gives, in consoles, notebooks, and inside of pipelines. It also
makes copies from there, which must be handed the same number: so the seed stays a number, of a kind
that does not write itself out.
"""

from typing import Any

from sklearn.base import BaseEstimator


class _HiddenInt(int):
    """A whole number that is not printed."""

    def __repr__(self):
        return "<a seed>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)


class HidesNoiseSeed:
    """An estimator whose parameter `noise_seed` is secret; stands before `BaseEstimator`."""

    def get_params(self: Any, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name, as scikit-learn asks for them.

        Args:
            deep: whether those of parameters that are estimators are included.
        """
        params = BaseEstimator.get_params(self, deep=deep)
        seed = params["noise_seed"]
        # One that came from here, in a copy, must stay the same object.
        if isinstance(seed, int) and not isinstance(seed, (bool, _HiddenInt)):
            params["noise_seed"] = _HiddenInt(seed)
        return params

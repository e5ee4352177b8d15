"""Private learners with the conventions of scikit-learn: fit, predict, score, clone, pipelines.

Every fit is a release with its own budget. The k fits of cross-validation, or the k g + 1 of a grid
search of g cells, compose (`jaxdp.privacy.compose`), and the scores read the data without privacy:
choose by `ridge=jaxdp.kernels.SelectedRidge()` or on public data instead.

A step that learns from the records before a fit, in a Pipeline or by hand, breaks the guarantee:
with a StandardScaler, a PCA or an imputer one record changes the inputs of all others. A fit cannot
detect this; every `cost_` states the condition in `assumptions`. Fixed steps keep the guarantee,
such as a Normalizer or a `sklearn.frozen.FrozenEstimator` that was fitted to public data.

The error messages of a fit and its running time are outside every guarantee.
"""

from jaxdp.core.packages import require_extra as _require_extra

with _require_extra("sklearn", "data", "jaxdp.estimators"):
    from jaxdp.estimators.kernel_classifier import DPKernelClassifier as DPKernelClassifier
    from jaxdp.estimators.kernel_ridge import DPKernelRidge as DPKernelRidge
    from jaxdp.estimators.linear import DPLinearRegression as DPLinearRegression
    from jaxdp.estimators.linear import DPLogisticRegression as DPLogisticRegression

__all__ = [
    "DPKernelClassifier",
    "DPKernelRidge",
    "DPLinearRegression",
    "DPLogisticRegression",
]

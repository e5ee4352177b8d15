"""Private learners with the conventions of scikit-learn: fit, predict, score, clone, pipelines.

Every fit is a release with its own budget, also within cross-validation or a grid search, whose
scores read the data without privacy: choose by `ridge=jaxdp.kernels.SelectedRidge()` or on public
data instead. Error messages and running time are outside every guarantee.

A step that learns from the records before a fit, such as a StandardScaler, a PCA or an imputer,
breaks the guarantee: one record then changes the inputs of all others. A fit cannot detect this;
every `cost_` states the condition in `assumptions`. Fixed steps keep the guarantee, such as a
Normalizer or a `sklearn.frozen.FrozenEstimator` that was fitted to public data.
"""

from jaxdp.core.packages import require_extra as _require_extra

with _require_extra("sklearn", "data", "jaxdp.estimators"):
    from jaxdp.estimators.kernel import DPKernelClassifier, DPKernelRidge
    from jaxdp.estimators.linear import DPLinearRegression, DPLogisticRegression

__all__ = ["DPKernelClassifier", "DPKernelRidge", "DPLinearRegression", "DPLogisticRegression"]

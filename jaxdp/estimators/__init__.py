"""Private learners with the conventions of scikit-learn: fit, predict, score, clone, pipelines.

Every fit is a release of its own and spends its own budget. k-fold cross-validation fits k times
on overlapping rows, a grid search of g cells k g times and once more: such releases compose
(`jaxdp.privacy.compose`), and the score that a search chooses by is computed from the data without
any privacy. So that a choice costs nothing, use `ridge=jaxdp.kernels.SelectedRidge()` or data that
are public.

In a Pipeline, what a step before them learns from the records breaks the guarantee: a
StandardScaler, PCA or imputer lets one record change the inputs of all others, and a target that is
scaled by the labels does so too. A fit is given rows and cannot see where they came from, in a
Pipeline or by hand. So there is no warning of such a step: every `cost_` names the condition among
its `assumptions`, and to meet it is the caller's part. Steps that are fixed beforehand keep the
guarantee, such as a Normalizer, or what was fitted to public data and frozen
(`sklearn.frozen.FrozenEstimator`); for the scale of the columns there is `input_range`.

Left out: the announcement of an error and the running time are outside every guarantee here.
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

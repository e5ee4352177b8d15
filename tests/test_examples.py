"""Every public function and class carries an example, which runs and prints what it shows."""

import doctest
import inspect

import pytest
from public_names import PUBLIC

_NAMES = [name for name, thing in PUBLIC.items() if not inspect.isabstract(thing)]
# These compile for longer than a tenth of a second or so, or draw a figure.
_LONG = {
    "jaxdp.ClippedDiffusion",
    "jaxdp.ClippedSDE",
    "jaxdp.CorrelatedDPSGD",
    "jaxdp.CoupledODE",
    "jaxdp.DiscreteRecursion",
    "jaxdp.DiscreteVolterra",
    "jaxdp.FiniteDimension",
    "jaxdp.FixedFeatures",
    "jaxdp.Fluctuations",
    "jaxdp.FreeForm",
    "jaxdp.FunctionSpace",
    "jaxdp.GaussianClosure",
    "jaxdp.GradientFlow",
    "jaxdp.HomogenizedSDE",
    "jaxdp.InputScales",
    "jaxdp.Iterates",
    "jaxdp.LogisticRegression",
    "jaxdp.LowerBound",
    "jaxdp.ModewiseClosure",
    "jaxdp.Optimal",
    "jaxdp.OrnsteinUhlenbeck",
    "jaxdp.OrnsteinUhlenbeckSDE",
    "jaxdp.Reduced",
    "jaxdp.Status",
    "jaxdp.TabularRegression",
    "jaxdp.TightLowerBound",
    "jaxdp.TightUpperBound",
    "jaxdp.Trajectory",
    "jaxdp.UnclippedRecursion",
    "jaxdp.UpperBound",
    "jaxdp.algorithms.AdamConstants",
    "jaxdp.algorithms.LinearState",
    "jaxdp.algorithms.Training",
    "jaxdp.algorithms.adam_constants",
    "jaxdp.algorithms.linear_state",
    "jaxdp.algorithms.linear_state_of",
    "jaxdp.algorithms.train",
    "jaxdp.attacks.Reconstruction",
    "jaxdp.attacks.leak_report",
    "jaxdp.attacks.membership_scores",
    "jaxdp.attacks.network_target",
    "jaxdp.attacks.posterior_rows",
    "jaxdp.attacks.reconstruct",
    "jaxdp.attacks.span_target",
    "jaxdp.attacks.two_layer_target",
    "jaxdp.attacks.without_known_rows",
    "jaxdp.clipped_gradient_sum",
    "jaxdp.clipping.clipped_gradient_sum_in_parts",
    "jaxdp.clipping.sum_over_devices",
    "jaxdp.compare",
    "jaxdp.comparison.plot_comparison",
    "jaxdp.estimators.DPKernelClassifier",
    "jaxdp.estimators.DPKernelRidge",
    "jaxdp.explorer.spread",
    "jaxdp.kernels.CosineFeatures",
    "jaxdp.kernels.NormScaling",
    "jaxdp.kernels.OrthogonalFeatures",
    "jaxdp.kernels.PathwiseFeatures",
    "jaxdp.kernels.PrivateKernelClassifier",
    "jaxdp.kernels.PrivateKernelRegressor",
    "jaxdp.kernels.PrivateKernelRidge",
    "jaxdp.kernels.ProductFeatures",
    "jaxdp.kernels.ReleasedFunction",
    "jaxdp.kernels.load",
    "jaxdp.kernels.published.CanonicalEstimator",
    "jaxdp.kernels.published.CuratedFunction",
    "jaxdp.losses.ClippedSlope",
    "jaxdp.losses.CorrelatedSlope",
    "jaxdp.losses.SignalSlope",
    "jaxdp.losses.Softmax",
    "jaxdp.losses.well_specified_risk",
    "jaxdp.losses.well_specified_slope",
    "jaxdp.per_sample_gradient_norms",
    "jaxdp.plan",
    "jaxdp.planning.OnePassPlan",
    "jaxdp.planning.TrainingPlan",
    "jaxdp.planning.best_risks",
    "jaxdp.planning.optimal_strategy",
    "jaxdp.plots.plot_grid",
    "jaxdp.plots.plot_images",
    "jaxdp.plots.plot_plan",
    "jaxdp.plots.plot_reconstruction",
    "jaxdp.predict",
    "jaxdp.privacy.BufferedToeplitzNoise",
    "jaxdp.privacy.PoissonSubsampledGaussian",
    "jaxdp.privacy.audit",
    "jaxdp.privacy.audit_one_run",
    "jaxdp.privacy.num_correct_guesses",
    "jaxdp.required_epsilon",
    "jaxdp.required_samples",
    "jaxdp.schedules.is_non_increasing",
    "jaxdp.simulate",
    "jaxdp.sweep",
    "jaxdp.sweeps.read_store",
    "jaxdp.theory.last_iterate_reconstruction_errors",
    "jaxdp.theory.local_reconstruction_errors",
    "jaxdp.theory.membership_mu",
    "jaxdp.theory.mu_at_reconstruction_error",
    "jaxdp.theory.one_step_reconstruction_error",
    "jaxdp.theory.optimal_row_error",
    "jaxdp.theory.reconstruction_constant",
}


def _failures(example):
    test = doctest.DocTestParser().get_doctest(example, {}, "example", None, None)
    assert test.examples, "expected an example, got none"
    said = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return "".join(said)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in _LONG)) for name in _NAMES]
)
def test_the_example_of_a_public_name_runs_and_prints_what_it_shows(name):
    found = inspect.getdoc(PUBLIC[name])
    assert found is not None
    assert "Example:" in found
    failures = _failures(found.partition("Example:")[2])
    assert not failures, failures


def test_a_wrong_example_is_found():
    assert "Expected" in _failures(">>> 1 + 1\n3\n")


def test_every_long_example_is_one_of_the_examples():
    assert set(_NAMES) >= _LONG

"""Every public function and class carries an example, which runs and prints what it shows."""

import doctest
import inspect

import pytest
from public_names import PUBLIC

_NAMES = [name for name, thing in PUBLIC.items() if not inspect.isabstract(thing)]
# These compile for longer than a tenth of a second or so, or draw a figure.
_LONG = {
    f"jaxdp.{room}{name}"
    for room, names in {
        "": """
            ClippedDiffusion ClippedSDE CorrelatedDPSGD CoupledODE DiscreteRecursion
            DiscreteVolterra FiniteDimension FixedFeatures Fluctuations FreeForm
            FunctionSpace GaussianClosure GradientFlow HomogenizedSDE InputScales
            Iterates Linearised LogisticRegression ModewiseClosure NetworkTraining Optimal
            OrnsteinUhlenbeck Reduced Status TabularRegression
            TangentClosure Trajectory UnclippedRecursion UpperBound
            clipped_gradient_sum compare per_sample_gradient_norms plan predict
            required_epsilon required_samples simulate sweep
        """,
        "algorithms.": """
            AdamConstants LinearState Training adam_constants linear_state
            linear_state_of train
        """,
        "attacks.": """
            Reconstruction leak_report membership_scores network_target posterior_rows
            reconstruct span_target two_layer_target without_known_rows
        """,
        "clipping.": "clipped_gradient_sum_in_parts sum_over_devices",
        "comparison.": "plot_comparison",
        "estimators.": "DPKernelClassifier DPKernelRidge",
        "explorer.": "spread",
        "kernels.": """
            CosineFeatures NormScaling OrthogonalFeatures PathwiseFeatures
            PrivateKernelClassifier PrivateKernelRegressor PrivateKernelRidge
            ProductFeatures ReleasedFunction load
        """,
        "kernels.published.": "CanonicalEstimator CuratedFunction",
        "losses.": """
            ClippedSlope CorrelatedSlope SignalSlope Softmax
            well_specified_risk well_specified_slope
        """,
        "planning.": "OnePassPlan TrainingPlan best_risks optimal_strategy",
        "plots.": "plot_grid plot_images plot_plan plot_reconstruction",
        "privacy.": """
            BufferedToeplitzNoise PoissonSubsampledGaussian audit audit_one_run
            num_correct_guesses
        """,
        "schedules.": "is_non_increasing",
        "sweeps.": "read_store",
        "theory.": """
            last_iterate_reconstruction_errors local_reconstruction_errors membership_mu
            mu_at_reconstruction_error one_step_reconstruction_error optimal_row_error
            reconstruction_constant
        """,
    }.items()
    for name in names.split()
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

"""`jaxdp plan`: the plan, what is expected of it, the inverse."""

import json

import pytest

import jaxdp


@pytest.mark.slow
def test_the_plan_is_printed_drawn_and_can_be_pasted(run, tmp_path):
    out = run.well(
        "plan",
        *("--dim", "100", "--num-samples", "10000", "--epsilon", "2", "--label-noise", ".3"),
        *("--out", str(tmp_path / "new")),
    )
    for words in (
        "Plan for 10,000 samples at epsilon 2, delta 1e-05",
        "neighbours differ in one record that is replaced (replace-one)",
        "Error bar:",
        "A naive choice",
        "without privacy",
    ):
        assert words in out
    assert (tmp_path / "new" / "plan.png").stat().st_size > 10_000
    found = json.loads((tmp_path / "new" / "plan.json").read_text())
    assert found["predicted"]["final_risk"] == pytest.approx(0.0017537, rel=5e-3)
    assert 0 < found["predicted"]["standard_deviation"] < 0.2 * found["predicted"]["final_risk"]
    assert found["cost"]["epsilon"] == pytest.approx(2, abs=1e-6)
    assert found["cost"]["adjacency"] == "replace-one"
    # A naive choice is a constant rate at clip scale 1.
    problem, naive = jaxdp.LinearRegression.isotropic(100, label_noise=0.3), found["naive"]
    constant = jaxdp.OnePassDPSGD(naive["learning_rate"], 1.0, found["rho"], 10_000)
    risk = jaxdp.predict(problem, constant).final_risk
    assert float(risk) == pytest.approx(naive["final_risk"], rel=1e-3)
    assert (found["epsilon"], found["delta"]) == (2, 1e-5)
    assert found["clip_norm"] == pytest.approx(10 * found["clip_scale"])
    assert f"clip norm {found['clip_norm']:.4g} (" in out
    assert found["sensitivities"]["learning_rate"]["halved"] > 5
    pasted = eval(found["line"], {"jaxdp": jaxdp})
    assert f"\n{found['line']}\n" in out
    risk = jaxdp.predict(problem, pasted).final_risk
    assert float(risk) == pytest.approx(found["predicted"]["final_risk"], rel=1e-2)


@pytest.mark.slow
def test_a_family_of_schedules_is_no_better_than_the_best(run, tmp_path):
    out = run.well(
        "plan",
        *("--num-samples", "1000", "--rho", "1", "--schedule", "hyperbolic", "--json"),
        *("--out", str(tmp_path)),
    )
    found = json.loads(out)
    assert "jaxdp.Hyperbolic(" in found["line"]
    assert found["predicted"]["final_risk"] > 0.056485
    assert found["naive"]["times"] > 1


@pytest.mark.slow
def test_a_target_risk_asks_for_samples_or_for_epsilon(run, tmp_path):
    shared = ["--target-risk", ".05", "--json", "--out", str(tmp_path)]
    found = json.loads(run("plan", *shared, "--rho", "1")[1])
    assert found["required_samples"] == found["num_samples"] == 1068
    assert found["predicted"]["final_risk"] == pytest.approx(0.05, rel=2e-3)
    back = json.loads(run("plan", *shared, "--num-samples", "1068")[1])
    # rho = 1 costs 4.3772.
    assert back["required_epsilon"] == pytest.approx(4.3772, rel=2e-3)
    assert back["rho"] == pytest.approx(1, rel=2e-3)


def test_a_target_below_the_floor_is_answered_without_a_plan(run, tmp_path):
    shared = ["--target-risk", ".001", "--num-samples", "1000", "--out", str(tmp_path)]
    out = run.well("plan", *shared)
    assert "A risk of 0.001 needs more than 1000 samples at any epsilon." in out
    assert "picture" not in out
    found = json.loads(run.well("plan", *shared, "--json"))
    assert found["required_epsilon"] == "inf"
    assert found["files"] == [str(tmp_path / "plan.json")]
    assert json.loads((tmp_path / "plan.json").read_text()) == found

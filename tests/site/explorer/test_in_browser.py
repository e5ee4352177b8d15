"""The page in a real browser: it loads, follows its sliders, says what it does, refuses the rest.

Needs Chromium with its driver (in Debian `apt-get install chromium chromium-driver`); where they
are not installed the tests are skipped. Continuous integration installs them where it may
(`.ci/run`).
"""

import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp

pytest.importorskip("selenium")

from browser import CHROMIUM, DRIVER, Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Chromium and chromedriver"),
]


def _cells(a, b, c, key):
    return {"risk": 1 + (a - 1) ** 2 + (jnp.log(b)) ** 2 + c}


# Ctrl-C is heard also if the tests run in a shell's background, where it is ignored.
_MAIN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from jaxdp.cli import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    axes = {"a": jnp.linspace(0, 3, 7), "b": jnp.geomspace(0.1, 10, 9), "c": jnp.arange(2.0)}
    settings = {"key": jax.random.key(0), "version": "1", "quiet": True}
    jaxdp.sweep(_cells, axes, store=folder, **settings)
    rows = jax.random.normal(jax.random.key(0), (120, 4))
    labels = jnp.where(rows[:, 0] > 0, 1, -1)
    features: Any = {"train_features": rows[:60], "train_labels": labels[:60]}
    features |= {"test_features": rows[60:], "test_labels": labels[60:]}
    np.savez(folder.parent / "features.npz", **features)
    given = ["--store", str(folder), "--features", str(folder.parent / "features.npz")]
    command = [sys.executable, "-c", _MAIN, "explore", "--port", "0", "--no-browser"]
    root = str(pathlib.Path(jaxdp.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root}
    server = subprocess.Popen(
        [*command, *given], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert server.stdout is not None
    yield server.stdout.readline().split()[0]
    server.send_signal(signal.SIGINT)
    server.wait(20)
    server.stdout.close()


@pytest.fixture(scope="module")
def browser(address):
    made = Browser(address)
    made.wait(lambda: "predicted, released" in made.text(), 60)
    made.rest()
    yield made
    made.close()


def test_the_page_loads_without_errors_and_asks_nobody_else(browser, tmp_path):
    assert browser.errors() == []
    assert browser.fetched_elsewhere() == []
    assert browser.driver.save_screenshot(str(tmp_path / "explore.png"))
    assert (tmp_path / "explore.png").stat().st_size > 20_000


def test_a_slider_moves_the_curve_to_what_theory_predicts(browser):
    from selenium.webdriver.common.keys import Keys

    problem = jaxdp.LinearRegression.isotropic(200, label_noise=0.3)
    before = browser.picture()
    browser.part("slider-clip_scale", ".noUi-handle").send_keys(*[Keys.ARROW_LEFT] * 12)

    def follows():
        shown = float(browser.part("box-clip_scale", "input").get_attribute("value"))
        algorithm = jaxdp.OnePassDPSGD.calibrated(
            4.0,
            1e-5,
            learning_rate=jaxdp.Polynomial(3.0, power=0.5),
            clip_scale=shown,
            num_steps=5000,
        )
        predicted = jaxdp.predict(problem, algorithm, theory=jaxdp.Fluctuations())
        said = f"predicted, released: {predicted.final_risk:.4g} ± {predicted.final_std:.2g}"
        return shown < 1 and said in browser.text()

    # The page may be up to date at any place at which the slider was let go.
    browser.wait(follows, 20)
    browser.rest()
    assert browser.picture() != before


def test_bad_values_are_refused_with_one_message(browser):
    before = browser.picture()
    browser.type("epsilon", "-1")
    browser.wait(lambda: "expected ε to be a number from 0.05 to 50, got -1" in browser.text(), 20)
    # Over the websocket anything can be sent.
    browser.send("epsilon", "<b>300</b>")
    browser.wait(lambda: "from 0.05 to 50, got <b>300</b>" in browser.text(), 20)
    assert browser.text().count("expected") == 1
    assert browser.picture() == before
    browser.send("epsilon", "3")
    browser.wait(lambda: "expected ε" not in browser.text(), 20)
    browser.rest()
    assert browser.picture() != before
    assert browser.errors() == []


def test_runs_are_simulated_and_drawn(browser):
    browser.send("runs", "30 runs")
    browser.wait(lambda: "standard error of 30 runs" in browser.text())
    browser.rest()
    assert browser.errors() == []


def test_the_second_tab_shows_the_sweep(browser, tmp_path):
    browser.click("Sweep")
    browser.wait(lambda: "least risk: 1 at" in browser.text(), 30)
    browser.driver.save_screenshot(str(tmp_path / "sweep.png"))
    browser.click("Theory")
    assert browser.errors() == []


def test_the_forecast_of_a_file_is_made_and_shown(browser, tmp_path):
    browser.click("Forecast")
    assert "60 public rows, 4 features" in browser.text()
    browser.click("Make the forecast")
    browser.wait(lambda: "forecasting" in browser.text(), 30)
    browser.wait(lambda: "nine runs in ten" in browser.text() and "AUC" in browser.text())
    browser.driver.save_screenshot(str(tmp_path / "forecast.png"))
    browser.click("Theory")
    assert browser.errors() == []


def test_a_phone_shows_the_curve_first_and_needs_not_scroll_sideways(address):
    phone = Browser(address)
    try:
        size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
        phone.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        phone.driver.get(address)
        phone.wait(lambda: "predicted, released" in phone.text())
        width = "return [innerWidth, document.documentElement.scrollWidth];"
        assert phone.driver.execute_script(width) == [390, 390]
        curve, setting = phone.part("box-runs", "select"), phone.part("box-dim", "input")
        assert curve.location["y"] < setting.location["y"]
    finally:
        phone.close()

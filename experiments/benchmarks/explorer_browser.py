"""Times a slider of the page in a headless Chromium: from its move to the picture's new data."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage"
)
# Moves a slider by one place, and calls back with the seconds until the curve's data are others.
_MOVE = """
const [setting, move, done] = arguments;
const document_ = Bokeh.documents[0];
const line = document_.get_model_by_name("line");
const before = line.data;
let slider = null;
for (const model of document_._all_models.values())
  if ((model.css_classes ?? []).includes("slider-" + setting)) slider = model;
const started = performance.now();
slider.value = slider.value + move * slider.step;
const watch = () => {
  if (line.data !== before) { done((performance.now() - started) / 1000); return; }
  setTimeout(watch, 1);
};
watch();
"""
_IDLE = """
for (const model of Bokeh.documents[0]._all_models.values())
  if (typeof model.text === "string" && model.text.includes("up to date")) return true;
return false;
"""


def browser_seconds(settings: Sequence[str], repeats: int) -> np.ndarray | None:
    """Seconds of moves of sliders, (settings, repeats); None without Chromium or selenium."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    try:
        from selenium import webdriver
    except ModuleNotFoundError:
        return None
    if chromium is None or driver is None:
        return None
    command = [sys.executable, "-m", "jaxdp", "explore", "--port", "0", "--no-browser"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    ):
        assert server.stdout is not None
        address = server.stdout.readline().split()[0]
        options = webdriver.ChromeOptions()
        for flag in (*_FLAGS.split(), f"--user-data-dir={folder}"):
            options.add_argument(flag)
        options.binary_location = chromium
        browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
        try:
            browser.set_script_timeout(60)
            browser.get(address)
            time.sleep(3)
            return np.asarray([_moves(browser, setting, repeats) for setting in settings])
        finally:
            browser.quit()
            server.terminate()


def _moves(browser: Any, setting: str, repeats: int) -> list[float]:
    """Seconds of moves of one slider, back and forth and farther, after one that is not timed."""
    found = []
    for number in range(repeats + 1):
        while not browser.execute_script(_IDLE):
            time.sleep(0.05)
        found.append(browser.execute_async_script(_MOVE, setting, (-1) ** number * (number + 1)))
    return found[1:]

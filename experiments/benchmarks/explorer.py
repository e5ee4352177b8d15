"""How soon the page of `jaxdp explore` follows a slider, once everything is compiled.

A slider is set to another value again and again, never to one that it has had. Three times are
taken: from the settings to the numbers of the curve; from the widget to the data of the picture, on
the server; and in a headless Chromium, from the slider to the data of the picture in the browser,
over the websocket, where Chromium and selenium are installed.
"""

import dataclasses
import itertools
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray
from matplotlib.figure import Figure

from experiments import harness
from experiments.harness import Check, drawing
from jaxdp.explorer.studies.base import AbstractStudy
from jaxdp.explorer.studies.linear_stream import LinearStream
from jaxdp.explorer.studies.synthetic_rows import SyntheticRows

LIMITS = {"stream": 0.1, "rows": 1.0}
_CURVE, _SERVER, _BROWSER, _BAND = "curve", "page, server", "page, browser", "band"
_TIMES = (_CURVE, _BAND, _SERVER, _BROWSER)
# Settings of each case, beside those that the page begins with.
_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "stream, equal eigenvalues": ("stream", {"dim": 1000}),
    "stream, 1,000 eigenvalues": ("stream", {"dim": 1000, "condition_number": 10.0}),
    "rows, n = 500, p = 50, T = 50": ("rows", {}),
    "rows, n = 1000, p = 200, T = 100": (
        "rows",
        {"num_rows": 1000, "num_features": 200, "num_steps": 100},
    ),
}
_SLIDERS = {
    "stream": ("epsilon", "clip_scale", "peak", "label_noise", "num_samples"),
    "rows": ("epsilon", "clip_norm", "learning_rate", "label_noise", "sampling_rate"),
}
# What a slider sets, in words that both kinds share.
_WORDS = ("epsilon", "clip", "learning rate", "label noise", "samples or sampling rate")


@dataclasses.dataclass(frozen=True)
class Config:
    """Cases, and how often each slider is moved."""

    cases: tuple[str, ...] = tuple(_CASES)
    repeats: int = 5
    has_browser: bool = True

    smoke = harness.size(cases=("stream, equal eigenvalues",), repeats=2, has_browser=False)


def run(config: Config) -> xarray.Dataset:
    """Seconds of each move."""
    cell = ("case", "slider", "what", "repeat")
    axes = {"case": config.cases, "slider": _WORDS, "what": _TIMES, "repeat": config.repeats}
    dataset = harness.empty(axes, {cell: ["seconds"]})
    kinds = [_CASES[name][0] for name in config.cases]
    dataset = dataset.assign_coords(kind=("case", kinds))
    studies: dict[str, AbstractStudy] = {"stream": LinearStream(), "rows": SyntheticRows()}
    for row, case in enumerate(harness.track(config.cases, str)):
        kind, given = _CASES[case]
        study = studies[kind]
        values = study.changed(study.start(), **given)
        curve = _timed(dict, lambda values, study=study: study.curve(study.describe(values)))
        band, page = _timed(study.describe, study.band), _Page(study, values)
        for column, name in enumerate(_SLIDERS[kind]):
            moves = list(_moves(study, values, name, 3 * config.repeats + 1))
            for what, call in enumerate((curve, band, page)):
                # One more than is timed: the first may compile.
                call(values | {name: moves[-1]})
                for repeat in range(config.repeats):
                    moved = values | {name: moves[what * config.repeats + repeat]}
                    dataset.seconds[row, column, what, repeat] = call(moved)
    if config.has_browser:
        _measure_in_browser(config, dataset)
    return harness.in_units(dataset, seconds="s")


def _moves(study: AbstractStudy, values: dict[str, Any], name: str, count: int):
    """Values of a slider around the one it has, all different."""
    field: Any = study.field(name)
    place = field.position(values[name])
    low, high = field.position(field.low), field.position(field.high)
    width = 0.12 * (high - low)
    ends = max(low, place - width), min(high, place + width)
    for each in np.linspace(*ends, count + 2)[1:-1]:
        yield field.at(float(each))


def _timed(prepare: Callable, call: Callable) -> Callable[[dict[str, Any]], float]:
    """Seconds of a call on what was prepared of the settings."""

    def seconds(values: dict[str, Any]) -> float:
        prepared = prepare(values)
        started = time.perf_counter()
        call(prepared)
        return time.perf_counter() - started

    return seconds


class _Page:
    """The first tab without a browser."""

    def __init__(self, study: AbstractStudy, values: dict[str, Any]):
        from jaxdp.explorer.views.background import Poster
        from jaxdp.explorer.views.theory_tab import TheoryTab

        self._tab, self._values = TheoryTab(study, Poster()), values
        self._set(values)

    def __call__(self, values: dict[str, Any]) -> float:
        """Seconds until the data of the curve are others; then everything comes to rest."""
        name = next(name for name in values if values[name] != self._values[name])
        self._set(self._values)
        before: Any = self._line()
        control: Any = self._tab.controls[name]
        started = time.perf_counter()
        control.box.value = f"{values[name]!r}"
        while self._line() is before:
            time.sleep(0.0005)
        seconds = time.perf_counter() - started
        self._rest()
        return seconds

    def _line(self):
        return self._tab.figure.predicted["line"].data["y"]

    def _set(self, values: dict[str, Any]) -> None:
        self._tab.values = dict(values)
        self._tab.predict()
        self._rest()

    def _rest(self) -> None:
        while not self._tab._curves.is_idle:
            time.sleep(0.001)


def _measure_in_browser(config: Config, dataset: xarray.Dataset) -> None:
    """Fill in what the browser measures, of the case that the page begins with."""
    found = browser_seconds(list(_SLIDERS["stream"]), config.repeats)
    for row, case in enumerate(config.cases):
        if case == "stream, equal eigenvalues" and found is not None:
            dataset.seconds[row, :, _TIMES.index(_BROWSER)] = found


def _median(dataset: xarray.Dataset, what: str) -> xarray.DataArray:
    return dataset.seconds.sel(what=what).median("repeat")


def checks(dataset: xarray.Dataset) -> list[Check]:
    """The goals, as measured here; never asserted by a test."""
    found = []
    for kind, limit in LIMITS.items():
        here = dataset.isel(case=np.flatnonzero(dataset.kind.data == kind))
        for what in (_CURVE, _SERVER, _BROWSER):
            slowest = float(_median(here, what).max()) if here.sizes["case"] else np.nan
            if np.isfinite(slowest):
                claim = f"{kind}: {what}: the median move of every slider takes less than {limit:g}"
                found.append(Check(f"{claim} s", f"at most {slowest:.3f} s", slowest < limit))
    return found


def summary(dataset: xarray.Dataset) -> str:
    """A table of medians."""
    rows = []
    for case, word in itertools.product(dataset.case.data, dataset.slider.data):
        here = dataset.sel(case=case, slider=word)
        times = [float(_median(here, what)) for what in _TIMES]
        texts = [f"{1000 * each:.0f}" if np.isfinite(each) else "" for each in times]
        rows.append([str(case), str(word), *texts])
    return (
        f"Median milliseconds of {dataset.sizes['repeat']} moves of a slider to values that it "
        "has not had, everything compiled: to the numbers of the curve; of the band, which comes "
        "after it; from the widget to the picture's data on the server; and in a headless "
        "Chromium from the slider to the data in the browser. With Poisson batches another "
        "epsilon or sampling rate asks the account of subsampling several times. Between the "
        "server's and the browser's times lie the websocket and the browser itself, on the same "
        "cores.\n\n" + harness.table(["case", "slider", *(f"{what}, ms" for what in _TIMES)], rows)
    )


def plot(dataset: xarray.Dataset) -> Figure:
    """The medians as points, with the goals as lines."""
    figure = Figure(figsize=(8.4, 3.2), layout="constrained")
    axes = figure.subplots()
    places = np.arange(dataset.sizes["case"] * dataset.sizes["slider"])
    shown = zip((_CURVE, _SERVER, _BROWSER), (drawing.BLUE, drawing.GREY, "black"), strict=True)
    for what, color in shown:
        medians = _median(dataset, what).data.ravel()
        axes.plot(medians, places, "o", color=color, label=what)
    for row, kind in enumerate(dataset.kind.data):
        low = row * dataset.sizes["slider"] - 0.5
        axes.vlines(LIMITS[str(kind)], low, low + dataset.sizes["slider"], color="0.6")
    names = [f"{case}: {word}" for case in dataset.case.data for word in dataset.slider.data]
    axes.set_yticks(places, names, fontsize=6)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="seconds until the page has followed (line: the goal)")
    axes.legend(frameon=False, fontsize="small")
    drawing.tidy(axes, "")
    return figure


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
            return np.asarray([_browser_moves(browser, setting, repeats) for setting in settings])
        finally:
            browser.quit()
            server.terminate()


def _browser_moves(browser: Any, setting: str, repeats: int) -> list[float]:
    """Seconds of moves of one slider, back and forth and farther, after one that is not timed."""
    found = []
    for number in range(repeats + 1):
        while not browser.execute_script(_IDLE):
            time.sleep(0.05)
        found.append(browser.execute_async_script(_MOVE, setting, (-1) ** number * (number + 1)))
    return found[1:]


claims = harness.claims_of(checks)
harness.main(__name__)

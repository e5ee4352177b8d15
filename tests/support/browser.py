"""A headless Chromium that looks at the page: what it shows, what it says, what it fetches."""

import contextlib
import json
import shutil
import tempfile
import time
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.keys import Keys

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage --window-size=1400,1300"
)
# Widgets live in shadow trees, into which no selector looks.
_WALK = """
const found = [];
function walk(node) {
  if (node.nodeType === 3) { take_text(node); return; }
  if (node.nodeType !== 1 && node.nodeType !== 11) return;
  if (node.tagName === "STYLE" || node.tagName === "SCRIPT") return;
  const look = node.nodeType === 1 ? getComputedStyle(node) : null;
  // Panels of tabs that are not open are hidden in the other way.
  if (look !== null && (look.display === "none" || look.visibility === "hidden")) return;
  take(node);
  if (node.shadowRoot) walk(node.shadowRoot);
  for (const child of node.childNodes) walk(child);
}
"""
_TEXT = (
    "function take(node) {} function take_text(node) { found.push(node.textContent); }"
    + _WALK
    + "walk(document.body); return found.join(' ');"
)
_FIND = (
    """
const [kind, wanted] = arguments;
function take_text(node) {}
function take(node) {
  if (!node.classList) return;
  if (kind === "class" ? node.classList.contains(wanted)
      : (node.tagName === "BUTTON" || /bk-(tab|btn)/.test(node.className))
        && node.textContent.trim() === wanted) found.push(node);
}
"""
    + _WALK
    + "walk(document.body); return found[0];"
)
_PICTURE = (
    """
function take_text(node) {}
function take(node) { if (node.tagName === "IMG" && node.src) found.push(node.src); }
"""
    + _WALK
    + "walk(document.body); return found[0];"
)
_INSIDE = "return arguments[0].shadowRoot.querySelector(arguments[1]);"


class Browser:
    """One tab of a browser."""

    def __init__(self, url: str):
        self.folder = tempfile.mkdtemp()
        options = webdriver.ChromeOptions()
        for flag in (*_FLAGS.split(), f"--user-data-dir={self.folder}"):
            options.add_argument(flag)
        assert CHROMIUM is not None
        options.binary_location = CHROMIUM
        logged = {"browser": "ALL", "performance": "ALL"}
        options.set_capability("goog:loggingPrefs", logged)
        self.driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
        self.url = url
        self.driver.get(url)

    def close(self) -> None:
        """End it, and leave nothing behind."""
        with contextlib.suppress(Exception):
            self.driver.quit()
        shutil.rmtree(self.folder, ignore_errors=True)

    def text(self) -> str:
        """All that can be read on the page."""
        return " ".join(self.driver.execute_script(_TEXT).split())

    def wait(self, condition, seconds: float = 180):
        """What the condition gives, once it is true."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            found = condition()
            if found:
                return found
            time.sleep(0.05)
        raise TimeoutError(self.text()[:2000])

    def rest(self) -> None:
        """Wait until the page has nothing to do."""
        self.wait(lambda: "up to date" in self.text())

    def picture(self) -> str:
        """The picture that is shown first, as the browser has it."""
        return self.wait(lambda: self.driver.execute_script(_PICTURE), 20)

    def click(self, text: str) -> None:
        """Press the button, or open the tab, of this text."""
        self.wait(lambda: self.driver.execute_script(_FIND, "text", text), 20).click()

    def part(self, name: str, selector: str):
        """An element inside the widget of a class."""
        widget = self.wait(lambda: self.driver.execute_script(_FIND, "class", name), 20)
        return self.driver.execute_script(_INSIDE, widget, selector)

    def type(self, setting: str, text: str) -> None:
        """Type into a setting's box."""
        box = self.part(f"box-{setting}", "input")
        box.send_keys(Keys.END, *[Keys.BACKSPACE] * 20, text, Keys.ENTER)

    def send(self, setting: str, value: Any) -> None:
        """Send a setting as any program could over the websocket."""
        self.driver.execute_script(
            "const wanted = 'box-' + arguments[0];"
            "for (const model of Bokeh.documents[0]._all_models.values())"
            "  if ((model.css_classes ?? []).includes(wanted)) model.value = arguments[1];",
            setting,
            value,
        )

    def errors(self) -> list[str]:
        """Errors in the browser's console since it was last asked."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] == "SEVERE"
        ]

    def fetched_elsewhere(self) -> list[str]:
        """Addresses of other machines that the page has asked for something."""
        found = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                parameters = message["params"]
                found.add(parameters.get("url") or parameters["request"]["url"])
        host = self.url.split("/")[2]
        network = ("http:", "https:", "ws:", "wss:")
        return sorted(url for url in found if url.startswith(network) and host not in url)

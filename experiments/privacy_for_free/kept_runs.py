"""Trained networks that are kept on disk: a figure that was stopped goes on where it was.

One small file for each network, named by all that decides it, and written whole or not at all.
`jaxdp.sweep` keeps the cells of what JAX can trace; here every network has its own number of steps,
and its noise comes from a numerical account on the host.
"""

import hashlib
import inspect
import json
import pathlib
import time
from collections.abc import Callable
from typing import Any

from experiments.privacy_for_free import mnist_runs
from experiments.privacy_for_free.mnist_runs import Outcome
from jaxdp.core.files.whole_files import write_whole
from jaxdp.sweeps.provenance import versions_and_devices


class KeptRuns:
    """A folder of outcomes; None keeps nothing.

    Args:
        folder: made when absent; of one data set, which no file names.

    Attributes:
        num_read, num_made: networks that were kept before, and that were trained.
        seconds: what training all of them took, whenever that was.
    """

    def __init__(self, folder: pathlib.Path | None):
        self.folder, self.num_read, self.num_made, self.seconds = folder, 0, 0, 0.0
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        code = "".join(inspect.getsource(mnist_runs).split())
        facts = {name: text for name, text in versions_and_devices().items() if name != "device"}
        self._program = hashlib.sha256(f"{code}{sorted(facts.items())}".encode()).hexdigest()

    @classmethod
    def of(cls, store: "pathlib.Path | KeptRuns | None") -> "KeptRuns":
        """A folder as what it keeps; one that keeps already as it is."""
        return store if isinstance(store, KeptRuns) else cls(store)

    def outcome(self, facts: dict[str, Any], train: Callable[[], Outcome]) -> Outcome:
        """The outcome of a network: read, or trained now and kept.

        Args:
            facts: all that decides it, as JSON has it: sizes, settings, seed.
            train: trains it.
        """
        path = None if self.folder is None else self._path(facts)
        if path is not None and path.exists():
            saved = json.loads(path.read_text())
            self.num_read, self.seconds = self.num_read + 1, self.seconds + saved["seconds"]
            return Outcome(**saved["outcome"])
        started = time.monotonic()
        found = train()
        seconds = time.monotonic() - started
        self.num_made, self.seconds = self.num_made + 1, self.seconds + seconds
        if path is not None:
            saved = {"facts": facts, "outcome": found._asdict(), "seconds": seconds}
            # A stop while it is written leaves no half of a file under the name that is read.
            write_whole(path, json.dumps(saved).encode())
        return found

    def _path(self, facts: dict[str, Any]) -> pathlib.Path:
        assert self.folder is not None
        text = json.dumps({"program": self._program, **facts}, sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"

"""Where random numbers in tests come from: seeds, also where jaxdp asks the operating system.

`conftest.py` lets every test and every fixture draw from a stream of its own, a hash of its name,
unless the test is marked `entropy`. A process that a test starts draws from the operating system,
unless it is given `known_environment`.
"""

import contextlib
import hashlib
import itertools
import os
import pathlib
import random
import secrets
import sys

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_OWN = tuple(str(_ROOT / folder) + os.sep for folder in ("jaxdp", "tests", "experiments"))
# Through these the generators of the standard library and of NumPy reach the operating system.
_GENERATORS = (random.__file__, secrets.__file__)

# No test counts as far as this in seeds.
_STRIDE = 7919
# What `jaxdp.privacy.SecretNoise` hashes before a seed.
_NOISE_LABEL = b"jaxdp secret noise"
# The environment variable that `known_bits/sitecustomize.py` reads: a seed and a name.
NAME_OF_STREAM = "JAXDP_TESTS_STREAM"

_unknown = os.urandom


def name_in_file(node_id: str) -> str:
    """The name of a test without the folders of its file: a file that moves keeps its bits."""
    file, _, test = node_id.partition("::")
    return f"{file.rpartition('/')[2]}::{test}"


class KnownEntropy:
    """Stands in for `os.urandom` where jaxdp asks, and keeps whose stream is drawn from."""

    def __init__(self, seed: int):
        self._seed = seed
        self._streams = [None]

    def install(self) -> None:
        """For the rest of the process."""
        os.urandom = random._urandom = self.draw

    @contextlib.contextmanager
    def stream(self, name: str | None):
        """Within it the stream of that name is drawn from; None for the operating system's."""
        self._streams.append(None if name is None else (name, itertools.count()))
        try:
            yield
        finally:
            self._streams.pop()

    def draw(self, count: int) -> bytes:
        """As `os.urandom`."""
        if self._streams[-1] is None or not _caller().startswith(_OWN):
            return _unknown(count)
        name, draws = self._streams[-1]
        return hashlib.shake_256(f"{self._seed}, {name}, {next(draws)}".encode()).digest(count)


def _caller() -> str:
    """The file that asked for bits."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename in _GENERATORS:
        frame = frame.f_back
    return frame.f_code.co_filename


def known_environment(seed: int, name: str) -> dict[str, str]:
    """The environment of one process in which jaxdp draws from the stream of that seed and name."""
    folders = [str(pathlib.Path(__file__).with_name("known_bits")), os.environ.get("PYTHONPATH")]
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
    return os.environ | paths | {NAME_OF_STREAM: f"{seed} {name}"}


def shift_seeds(offset: int) -> None:
    """Seeds become those of an offset that is not 0, for the rest of the process."""
    if not offset:
        return
    # Not before: a process with known bits starts without them.
    import jax
    import numpy as np

    key, generator, hashed = jax.random.key, np.random.default_rng, hashlib.shake_256

    def other_key(seed, *, impl=None):
        return key(seed + _STRIDE * offset, impl=impl)

    def other_generator(seed=None):
        is_number = isinstance(seed, (int, np.integer))
        return generator(seed + _STRIDE * offset if is_number else seed)

    def other_hash(data=b"", **options):
        return hashed(data + (str(offset).encode() if data == _NOISE_LABEL else b""), **options)

    jax.random.key, np.random.default_rng, hashlib.shake_256 = (
        other_key,
        other_generator,
        other_hash,
    )

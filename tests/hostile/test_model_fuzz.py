"""Whatever a model's file holds, it is a whole function or one error that names the file."""

import collections
import os
import pathlib
from unittest import mock

import every_map
import fuzzing
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from jaxdp import kernels
from jaxdp.core import files as core_files
from jaxdp.kernels.release import model_file
from jaxdp.kernels.release.released_function import FitRecord
from jaxdp.privacy import (
    Composition,
    GaussianMechanism,
    ObjectivePerturbationMechanism,
    Release,
    StatedBudget,
    Unproved,
)
from jaxdp.privacy.mechanisms import ZeroConcentrated
from jaxdp.privacy.objective_perturbation import SoftmaxPerturbation

SLOW_CASES, QUICK_CASES = 1500, 60


def _wholes(folder):
    """Files of functions that have every class in them that can be written."""
    mechanisms = [
        Composition((GaussianMechanism(0.3), ZeroConcentrated(0.1))),
        ObjectivePerturbationMechanism(0.1, 0.2, 0.1, has_signed_slopes=True),
        SoftmaxPerturbation(0.1, 0.2, 0.1, num_classes=3),
        Unproved("no proof"),
    ]
    maps = [
        *(every_map.MAPS[name] for name in ("heavy tails", "cosine", "identity", "ranges")),
        kernels.ClippedFeatures(kernels.NormScaling(every_map.MAPS["paired"], 2.0), 1.0),
        every_map.TORUS.features(1, 1, key=jr.key(0)),
    ]
    for i, features in enumerate(maps):
        mechanism = mechanisms[i % len(mechanisms)]
        names = tuple(f"column {j}" for j in range(features.dim))
        kernels.ReleasedFunction(
            features=features,
            coefficients=jnp.ones(features.num_outputs),
            statement=Release("sums", "replace-one", mechanism, ("a",), StatedBudget(1.0, 1e-5)),
            delta=1e-5,
            public_seed=i,
            label_bound=1.5,
            columns=kernels.ColumnNames(names, "y", ("no", "yes")) if i % 2 else None,
            record=FitRecord(9, "a", (("b", "c"),), ((0.5, 0.1, "d"),)) if i % 3 else None,
        ).save(folder / "whole.npz", overwrite=True)
        yield (folder / "whole.npz").read_bytes()


def _outcome(path):
    """How a file ends, where that is one of the two ways that are allowed."""
    with fuzzing.bounded():
        try:
            function = kernels.load(path)
        except (OSError, ValueError) as error:
            assert str(path) in str(error)  # noqa: PT017
            return "refused"
    first, again = path.with_name("first"), path.with_name("again")
    function.save(first, overwrite=True)
    kernels.load(first).save(again, overwrite=True)
    assert first.read_bytes() == again.read_bytes(), "what was loaded is not what is written"
    return "loaded"


def _fuzz(folder, count, seed=0):
    folder = pathlib.Path(folder)
    path, wholes = folder / "wrong.npz", list(_wholes(folder))
    rng = np.random.default_rng(seed)
    for content in wholes:
        path.write_bytes(content)
        assert _outcome(path) == "loaded"
    for kind, make in fuzzing.NODES.items():
        make(folder / kind)
        with fuzzing.named(kind), fuzzing.bounded():
            assert _outcome(folder / kind) == "refused"
    files = fuzzing.wrong_files(wholes, rng, count)
    with mock.patch.object(core_files, "MOST_UNPACKED", 10**7):
        return fuzzing.outcomes(files, path, lambda: _outcome(path))


def test_wrong_files_are_refused_by_name_or_are_whole_functions(tmp_path):
    found = _fuzz(tmp_path, QUICK_CASES)
    assert sum(found.values()) == QUICK_CASES


@pytest.mark.slow
def test_thousands_of_wrong_files_neither_hang_nor_take_memory(tmp_path):
    found = fuzzing.found_with_little_memory(_fuzz, tmp_path, SLOW_CASES)
    outcomes = collections.Counter(outcome for _, outcome in found.elements())
    assert sum(outcomes.values()) == SLOW_CASES
    # Forgeries that are functions show that the others are refused for what was changed.
    assert outcomes["loaded"] > 50
    assert outcomes["refused"] > SLOW_CASES / 3


BUGS = {
    "bombs are unpacked": (core_files, "_check_entries", lambda *given: None),
    "a pipe is waited for": (os.path, "isfile", lambda path: True),
    "parts are not checked": (model_file, "check", lambda function: None),
    "what is unreadable is not translated": (core_files, "DamagedError", ZeroDivisionError),
}


@pytest.mark.parametrize("bug", BUGS)
def test_the_fuzzer_finds_planted_bugs(bug, tmp_path, monkeypatch):
    monkeypatch.setattr(*BUGS[bug])
    # It ends at the first that it finds.
    fuzzing.assert_finds(lambda: _fuzz(tmp_path, 3000), monkeypatch)

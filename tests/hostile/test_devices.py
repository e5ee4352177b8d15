"""The same results on eight simulated devices, in one process of their own."""

import json
import os
import subprocess
import sys

import pytest
from processes import SUPPORT, environment

from jaxdp.clipping import sensitivity_excess

# What is private has to be so where devices share a sum, in the arithmetic of users' programs.
pytestmark = [pytest.mark.slow, pytest.mark.optimised]


@pytest.fixture(scope="module")
def found():
    flags = os.environ.get("XLA_FLAGS", ""), "--xla_force_host_platform_device_count=8"
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(SUPPORT / "eight_devices.py")],
        env=environment(XLA_FLAGS=" ".join(flags)),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("name", ["sharded", "sharded, in microbatches", "shard_map"])
def test_clipped_sum_and_norms_do_not_see_the_devices(found, name):
    assert found["clipping"]["gaps"][name] < 2e-6
    # Norms of this size are compared.
    assert found["clipping"]["largest"] > 0.1


@pytest.mark.parametrize("order", ["in order", "spread"])
@pytest.mark.parametrize("way", ["sharded", "sharded, in microbatches", "shard_map"])
def test_one_record_moves_a_shared_sum_by_no_more_than_the_bound(found, way, order):
    sums = found["sums_in_parts"]
    here = sums["found"][f"{way}, {order}"]
    assert abs(here["moved"]) <= 1 + sensitivity_excess(8192, 1, num_devices=8)
    # Rounding in blocks, and no more; float32 alone would lose 1 of 4096.
    assert abs(here["sum"] - sums["sum"]) <= 8192 * 257 * 2.0**-24


def test_a_checked_shard_map_is_refused(found):
    assert "check_vma=False" in found["clipping"]["checked"]


@pytest.mark.parametrize(
    "name", ["simulated", "adaptive clip", "microbatches", "secret noise", "a memory map"]
)
def test_devices_that_share_batches_have_one_sum_and_one_noise(found, name):
    gap, moved = found["shared_batches"][name]
    # The share of the noise that covers rounding depends on how many add up a batch.
    assert gap < 1e-5 < 0.01 < moved


def test_explicit_axes_change_nothing(found):
    gaps = {name: max(pair) for name, pair in found["explicit_axes"].items()}
    assert max(gaps.values()) < 1e-5, gaps


@pytest.mark.parametrize(
    ("name", "runs", "rounding"),
    # An adaptive solver keeps four digits in float32, and may place its steps by the last one.
    [("predicted", 15, 1e-4), ("simulated", 30, 1e-6)],
)
def test_a_sweep_does_not_see_the_devices(found, name, runs, rounding):
    swept = found["sweeps"][name]
    assert [device.split()[0] for device in swept["devices"]] == ["8", "1"]
    assert swept["ended"] == runs
    assert swept["gap"] < rounding
    # The cells themselves differ by far more.
    assert swept["spread"] > 2

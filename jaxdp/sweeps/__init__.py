"""Sweeps: a function at every point of a grid, on all devices, with results kept on disk."""

from jaxdp.sweeps.axes import cell_key
from jaxdp.sweeps.store import read_store
from jaxdp.sweeps.sweeping import sweep

__all__ = ["cell_key", "read_store", "sweep"]

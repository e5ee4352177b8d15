"""From files to arrays: tables and the scaling of their columns; nothing of learning."""

from jaxdp.data.standardisation import column_scaling

__all__ = ["column_scaling"]

"""Figures of "Privacy for free in the over-parameterized regime" (PF)."""

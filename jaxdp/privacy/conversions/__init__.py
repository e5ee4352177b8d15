"""Conversions between guarantees: Gaussian DP, zCDP, sampling and (epsilon, delta)."""

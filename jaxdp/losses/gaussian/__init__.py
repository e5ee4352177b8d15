"""Means of losses and of their clipped slopes for Gaussian predictions."""

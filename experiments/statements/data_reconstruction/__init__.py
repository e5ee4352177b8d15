"""Statements of "A Law of Data Reconstruction for Random Features (and Beyond)" (DR)."""

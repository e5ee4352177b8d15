"""Measurements: candidates side by side in one run, in alternation."""

"""Runs on fixed rows."""

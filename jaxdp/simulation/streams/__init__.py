"""Runs on samples that come one after the other."""

"""Samples that come one after the other: from a law, or from a table in random order."""

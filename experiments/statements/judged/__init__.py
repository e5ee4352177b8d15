"""Statements whose two sides are computed in NumPy, with nothing of jaxdp: see `lemmas`."""

"""Optax transformations, and which of them are linear in gradient and state."""

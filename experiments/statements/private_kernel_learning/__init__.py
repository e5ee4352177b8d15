"""Statements of "Optimal differentially private kernel learning with random projection" (PK)."""

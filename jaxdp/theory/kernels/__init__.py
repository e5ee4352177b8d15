"""Risks and rates of private kernel ridge regression: PK's theorems and their equivalents."""

"""Statements of "Privacy for Free in the Overparameterized Regime" (PF)."""

"""Statements of "Better Rates for Private Linear Regression via Aggressive Clipping" (AC)."""

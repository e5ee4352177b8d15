"""Gaussian moments, sums, quadratures and random numbers that several parts of jaxdp use.

In the docstrings AC is "Better Rates for Private Linear Regression in the Proportional Regime via
Aggressive Clipping"; PF is "Privacy for Free in the Overparameterized Regime".
"""

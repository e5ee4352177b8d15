"""Gaussian moments, polynomials and random numbers that several rooms compute with."""

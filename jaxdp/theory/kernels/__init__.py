"""Predicted risks of private kernel ridge regression, from the spectrum of its kernel."""

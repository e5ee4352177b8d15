"""Private kernel ridge regression, and the choice of its ridge."""

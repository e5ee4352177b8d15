"""Private kernel ridge regression: noisy statistics, and the ridge that suits their noise."""

"""DP-SGD as it is run, predicted before it is run."""

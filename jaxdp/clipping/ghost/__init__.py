"""Norms and sums of per-sample gradients without forming them."""

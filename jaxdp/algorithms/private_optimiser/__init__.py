"""DP-SGD around any optax optimiser: its steps, sums, averages and releases."""

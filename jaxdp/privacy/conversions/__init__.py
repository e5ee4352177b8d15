"""From one guarantee to another: Gaussian DP, zCDP, sampling and (epsilon, delta)."""

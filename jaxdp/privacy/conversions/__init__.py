"""From one guarantee to another: Gaussian DP, zCDP and (epsilon, delta)."""

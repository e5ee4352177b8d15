"""The noise on sums of clipped gradients: independent, correlated or secret."""

"""What a loss is on average, and its clipped slope, where the prediction is Gaussian."""

"""What forecasts of private fine-tuning are worth, on bodies that others trained."""

"""The accuracy of forecasts of private fine-tuning, on bodies that others trained."""

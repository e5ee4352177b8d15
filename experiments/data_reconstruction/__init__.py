"""DR: reading the training set off the trained weights."""

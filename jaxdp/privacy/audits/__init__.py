"""Lower bounds on what a mechanism leaks, from running it."""

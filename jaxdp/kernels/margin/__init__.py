"""Private learners by objective perturbation, which release a noisy minimiser."""

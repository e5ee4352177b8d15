"""Private learners by objective perturbation: they release a noisy minimiser of an objective."""

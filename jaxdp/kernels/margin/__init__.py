"""Private classification by a convex loss of the margin: objective perturbation."""

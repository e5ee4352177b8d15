"""Private learners by objective perturbation: they release a noisy minimiser of a convex objective.

`learners` has losses of the margin, the softmax loss of several classes and losses of the residual.
`objective_calibration` sets the noise, with the proofs.
"""

"""Private learners by objective perturbation: they release a noisy minimiser of a convex objective.

`classifier` has losses of the margin and the softmax loss of several classes, `regressor` losses of
the residual. `objective_calibration` and `softmax_calibration` set the noise, with the proofs.
"""

"""What the arguments of descriptions are, in a few words and with their units.

An argument's name means one thing throughout the toolkit, so one table serves every class. Names
that need an explanation in their class's own words (`scale`, `weights`, `order`) are not in it.
"""

# Rows of a table, which may be private: only their number is shown.
RECORDS = frozenset(
    {
        "inputs",
        "labels",
        "rows",
        "train_inputs",
        "train_labels",
        "test_inputs",
        "test_labels",
        "train_factor",
        "test_factor",
        "unseen_factor",
        "landmarks",
    }
)

MEANINGS = {
    "activation": "of each feature",
    "average": "of the iterates, what is released",
    "batch_size": "samples a step",
    "block_size": "features looked at together",
    "chunk_size": "steps drawn together",
    "clip_norm": "longest gradient of a record",
    "clip_scale": "clip norm over sqrt(dim)",
    "decay": "kept of the average each step",
    "dim": "number of inputs",
    "initial_risk": "risk at zero parameters",
    "input_bound": "longest row, in units of the inputs",
    "input_scales": "squared scale of a row's inputs; none: Gaussian",
    "intercept_share": "of the budget, for the mean label",
    "knee": "time at which the rate has halved",
    "knots": "times in [0, 1]",
    "label_bound": "largest label, in units of the labels",
    "label_noise": "standard deviation of the labels' noise",
    "largest_norm": "of a feature vector",
    "max_steps": "steps of the solver",
    "noise": "how it is drawn; none: simulated, from a key",
    "noise_multiplier": "noise on the sum over the clip norm",
    "noise_scale": "sigma; multiplier 2 sigma / sqrt(learning rate)",
    "num_features": "random features",
    "num_knots": "knots of the schedule",
    "num_projections": "functions that are fitted",
    "num_records": "records of the data set",
    "num_steps": "steps",
    "num_test": "held-out rows",
    "num_train": "training rows",
    "peak": "learning rate at time 0",
    "power": "exponent of the decay",
    "rank": "modes whose covariances are kept in full",
    "rates": "learning rates of the steps",
    "residual_bound": "largest label less the intercept",
    "rho": "Gaussian DP parameter mu of the release",
    "sampler": "which records a batch has",
    "sampling_rate": "share of the records in a batch",
    "signal": "standard deviation of the log-odds",
    "spectrum": "eigenvalues of the inputs' covariance",
    "strategy": "correlation of the noise over steps",
    "target": "true parameters, in the eigenbasis",
    "tolerance": "of the solver's gradient",
}

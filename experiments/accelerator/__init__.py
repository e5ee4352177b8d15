"""Everything worth measuring on an accelerator: `python -m experiments.accelerator`."""

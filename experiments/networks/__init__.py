"""Networks of the papers' experiments: their training, and what is attacked of them."""

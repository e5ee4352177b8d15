"""Networks of the papers' experiments: their training, and the layers under attack."""

"""Private training of networks, and of linear models on features: published results repeated."""

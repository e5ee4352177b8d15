"""Plans of private training on fixed rows, by gradients through the closure of the features."""

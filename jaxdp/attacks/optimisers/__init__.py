"""How the guess is improved: optimisers of the attack's loss."""

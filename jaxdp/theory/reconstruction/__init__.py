"""How well records can be reconstructed from what is released, as theory says."""

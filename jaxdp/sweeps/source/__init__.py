"""Which function a store belongs to: its source and all that the source reads."""

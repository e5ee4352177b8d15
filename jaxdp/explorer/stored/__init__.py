"""What a sweep has found, as slices of a grid; no widgets."""

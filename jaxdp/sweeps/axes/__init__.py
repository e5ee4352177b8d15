"""What a sweep varies: axes, their values and their labels."""

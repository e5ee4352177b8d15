"""The equations that a search over schedules integrates, on a fixed grid of times."""

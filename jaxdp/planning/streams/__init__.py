"""Plans for one pass over a stream: schedules and noise, by the theory of the pass."""

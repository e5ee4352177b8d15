"""Plans for one pass over a stream: what of the algorithm a theory can choose."""

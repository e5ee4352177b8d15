"""Pictures of what everything shares; matplotlib is imported when one is drawn."""

"""The best of all non-increasing schedules for equal eigenvalues, and its search."""

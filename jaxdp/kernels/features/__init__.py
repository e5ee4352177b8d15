"""Feature maps that are drawn for a kernel, and the bounded ones that a private learner uses."""

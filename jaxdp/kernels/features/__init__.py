"""Feature maps drawn for a kernel, and the bounded ones that a private learner uses."""

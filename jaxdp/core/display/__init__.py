"""How objects are printed, and shown in notebooks: numbers with names and what they are."""

"""Words that everything shares; nothing here knows of privacy or of a particular problem."""

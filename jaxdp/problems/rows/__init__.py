"""Features on fixed rows: given, random, or of infinite width."""

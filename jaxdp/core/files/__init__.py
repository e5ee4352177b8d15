"""Files that are written whole or not at all, and what an interrupt leaves of them."""

"""How batches are drawn, and what drawing them at random is worth."""

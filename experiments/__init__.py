"""One module for each figure: its runs, its claims and its picture."""

"""One module a figure: what it runs, what it claims, how it is drawn."""

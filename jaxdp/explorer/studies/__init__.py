"""Studies that the page shows: from settings to descriptions, curves, costs and Python."""

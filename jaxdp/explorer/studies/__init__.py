"""What the page shows, without the page: settings to descriptions, curves, costs and Python."""

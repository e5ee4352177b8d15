"""Statements of the papers that are computed for tests and figures, and serve no user of jaxdp."""

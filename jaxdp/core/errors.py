"""The one exception of the toolkit that is not Python's own."""


class NotCoveredError(Exception):
    """A theory or simulator was asked about a problem and algorithm that it does not cover.

    Raised before any work. The message names the theory or simulator, the assumption that fails,
    and what to use instead.
    """

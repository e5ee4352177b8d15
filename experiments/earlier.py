"""Saved results that are of earlier code, and why they were not run again.

By name: the commit that the saved result names, and the reason. `python -m experiments.report
--check` accepts a stale result that stands here, and refuses a line whose result was run again or
is not stale. The report's page shows "from earlier code" beside them.
"""

EARLIER: dict[str, tuple[str, str]] = {}

"""The command line: parse, call, print."""

from jaxdp.cli.entry import main as main

__all__ = ["main"]

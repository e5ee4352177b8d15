"""The options of `jaxdp explore`."""

import argparse
import pathlib


def add_explore(commands) -> None:
    """Add the command to the parsers of `jaxdp`."""
    explore = commands.add_parser(
        "explore",
        help="a page with sliders: what theory predicts, what it costs, what a sweep has found",
        description=(
            "Serves a page on this machine: the predicted curve of private learning follows "
            "sliders; buttons simulate it, plan it and copy the Python that makes the picture. "
            "With --store a second tab shows a sweep. Only this machine can open the page, unless "
            "--address says otherwise: whoever can open it can use this machine's time."
        ),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    explore.add_argument(
        "--store",
        type=pathlib.Path,
        help="folder of a sweep (its --store), or its sweep.nc, for the second tab",
    )
    explore.add_argument("--address", default="127.0.0.1", help="IP address to listen at")
    explore.add_argument("--port", type=int, default=5006, help="port to listen at; 0: a free one")
    explore.add_argument(
        "--origin",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="a further name of the page, behind a proxy for example; may be repeated",
    )
    explore.add_argument("--no-browser", action="store_true", help="open no browser")
    explore.set_defaults(command=_explore)


def _explore(options: argparse.Namespace) -> None:
    from jaxdp.explorer import serve

    serve(
        options.store,
        address=options.address,
        port=options.port,
        origins=tuple(options.origin),
        is_shown=not options.no_browser,
    )

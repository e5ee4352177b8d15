"""Every command that a document shows is one that `jaxdp` understands."""

import re
import shlex

import pytest
from pages import PAGES, blocks, text_of

from jaxdp.cli.entry import make_parser

COMMANDS = [
    (page, line)
    for page in PAGES
    for block in blocks(page, "bash")
    for line in block.splitlines()
    if line.startswith("jaxdp ")
]


def _parsed(line):
    return make_parser().parse_args(shlex.split(line, comments=True)[1:])


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=lambda value: value.split("  ")[0])
def test_a_command_that_is_shown_parses(page, line):
    assert callable(_parsed(line).command)


def test_the_page_of_the_command_line_names_every_command_and_option_of_compare():
    text = text_of("docs/how_to/command_line.md")
    (commands,) = (dict(action.choices) for action in make_parser()._actions if action.choices)
    for name in commands:
        assert re.search(rf"`?jaxdp {name}\b", text), name
    options = {
        option
        for action in commands["compare"]._actions
        for option in action.option_strings
        if option.startswith("--") and option != "--help"
    }
    assert {option for option in options if f"`{option}" not in text} == set()

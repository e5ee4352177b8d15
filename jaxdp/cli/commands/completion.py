"""`jaxdp completion`: scripts that complete commands, options and their values in a shell.

They are written from the parser, once, when the script is made: the shell starts no Python at a
press of the tab key. Zsh reads the script of Bash.
"""

import argparse
import pathlib
from typing import NamedTuple

from jaxdp.cli.entry import _parser

_BASH = """\
_{program}() {{
    local IFS=$' \\t\\n' current=${{COMP_WORDS[COMP_CWORD]}} known= files=
    local command=${{COMP_WORDS[1]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
    if [ "$COMP_CWORD" -eq 1 ]; then
        known="{first}"
    else
        case "$command $previous" in
{values}
        *) case "$command" in
{words}
            esac ;;
        esac
    fi
    IFS=$'\\n'
    COMPREPLY=($(IFS=$' \\t\\n'; compgen -W "$known" -- "$current"))
    if [ -n "$files" ]; then
        compopt -o filenames 2>/dev/null
        COMPREPLY+=($(compgen -f -- "$current"))
    fi
}}
complete -F _{program} {program}
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


class Word(NamedTuple):
    """An option, or a value without one.

    Attributes:
        flags: such as "--out"; none of a value that stands alone.
        help: one line.
        takes_value: whether a value follows.
        is_file: whether that is a file or a folder.
        choices: what it may be, separated by blanks, where that is known.
    """

    flags: tuple[str, ...]
    help: str
    takes_value: bool
    is_file: bool
    choices: str


class Command(NamedTuple):
    """A command and what may follow it; the program itself has no name."""

    name: str
    help: str
    words: tuple[Word, ...]

    @property
    def flags(self) -> list[str]:
        """All its options."""
        return [flag for word in self.words for flag in word.flags]


def completion(options: argparse.Namespace) -> None:
    """Print the script of a shell."""
    program, *commands = known_commands(_parser())
    write = {"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell]
    print(write("jaxdp", program, commands), end="")


def known_commands(parser: argparse.ArgumentParser) -> list[Command]:
    """The program itself, and each of its commands."""
    found = [Command("", "", _words(parser))]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help or "" for each in action._choices_actions}
            found += [Command(name, helps[name], _words(p)) for name, p in action.choices.items()]
    return found


def _words(parser: argparse.ArgumentParser) -> tuple[Word, ...]:
    return tuple(
        Word(
            tuple(action.option_strings),
            (action.help or "").replace("%%", "%"),
            action.nargs != 0,
            action.type is pathlib.Path,
            " ".join(map(str, action.choices or ())),
        )
        for action in parser._actions
        if not isinstance(action, argparse._SubParsersAction)
    )


def _bash(name: str, program: Command, commands: list[Command]) -> str:
    values, words = [], []
    for command in commands:
        for word in command.words:
            if word.flags and word.takes_value:
                pattern = "|".join(f'"{command.name} {flag}"' for flag in word.flags)
                does = "files=1" if word.is_file else f'known="{word.choices}"'
                values.append(f"        {pattern}) {does} ;;")
        alone = [word for word in command.words if not word.flags]
        does = f'known="{" ".join([*command.flags, *(word.choices for word in alone)])}"'
        does += "; files=1" * any(word.is_file for word in alone)
        words.append(f"            {command.name}) {does} ;;")
    first = " ".join([*program.flags, *(command.name for command in commands)])
    return _BASH.format(program=name, first=first, values="\n".join(values), words="\n".join(words))


def _zsh(name: str, program: Command, commands: list[Command]) -> str:
    return _ZSH + _bash(name, program, commands)


def _fish(name: str, program: Command, commands: list[Command]) -> str:
    start = f"complete -c {name}"
    begin = f"{start} -n __fish_use_subcommand"
    lines = [f"{start} -f", *(f"{begin} {_fish_word(word)}" for word in program.words)]
    for command in commands:
        lines.append(f"{begin} -a {command.name} -d {_quoted(command.help)}")
        inside = f"{start} -n '__fish_seen_subcommand_from {command.name}'"
        lines += [f"{inside} {_fish_word(word)}" for word in command.words]
    return "\n".join(lines) + "\n"


def _fish_word(word: Word) -> str:
    """The options of `complete` for one word."""
    parts = [f"-l {flag[2:]}" if flag[1] == "-" else f"-s {flag[1:]}" for flag in word.flags]
    if word.flags and word.takes_value:
        parts.append("-r -F" if word.is_file else "-x")
    elif word.is_file:
        parts.append("-F")
    if word.choices:
        parts.append(f"-a {_quoted(word.choices)}")
    return " ".join([*parts, f"-d {_quoted(word.help)}"])


def _quoted(text: str) -> str:
    """In single quotes, as Fish reads them."""
    return "'" + text.replace("'", "’") + "'"

"""`jaxdp completion`: scripts that complete commands, options and their values in a shell.

They are written from the parser, once, when the script is made: the shell starts no Python at a
press of the tab key.
"""

import argparse
import pathlib
from typing import NamedTuple


class Word(NamedTuple):
    """An option, or a value without one.

    Attributes:
        flags: such as "--out"; none of a value that stands alone.
        help: one line.
        takes_value: whether a value follows.
        is_file: whether that is a file or a folder.
        choices: what it may be, where that is known.
    """

    flags: tuple[str, ...]
    help: str
    takes_value: bool
    is_file: bool
    choices: tuple[str, ...]


class Command(NamedTuple):
    """A command and what may follow it."""

    name: str
    help: str
    words: tuple[Word, ...]

    @property
    def flags(self) -> list[str]:
        """All its options."""
        return [flag for word in self.words for flag in word.flags]


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script of a parser whose commands are subparsers.

    Args:
        parser: with a program's name.
        shell: "bash", "zsh" or "fish".
    """
    write = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]
    return "\n".join(write(parser.prog, _commands(parser), _words(parser))) + "\n"


def _commands(parser: argparse.ArgumentParser) -> list[Command]:
    (commands,) = (
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    helps = {action.dest: action.help or "" for action in commands._choices_actions}
    return [Command(name, helps[name], _words(each)) for name, each in commands.choices.items()]


def _words(parser: argparse.ArgumentParser) -> tuple[Word, ...]:
    found = []
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            choices = tuple(map(str, action.choices or ()))
            text = " ".join((action.help or "").replace("%(default)s", str(action.default)).split())
            takes_value = action.nargs != 0
            is_file = takes_value and action.type is pathlib.Path
            flags = tuple(action.option_strings)
            found.append(Word(flags, text.replace("%%", "%"), takes_value, is_file, choices))
    return tuple(found)


def _bash(program: str, commands: list[Command], common: tuple[Word, ...]) -> list[str]:
    first = [flag for word in common for flag in word.flags] + [each.name for each in commands]
    lines = [
        f"_{program}() {{",
        "    local IFS=$' \\t\\n' current=${COMP_WORDS[COMP_CWORD]} words= files=",
        "    local command=${COMP_WORDS[1]} previous=${COMP_WORDS[COMP_CWORD-1]}",
        '    if [ "$COMP_CWORD" -eq 1 ]; then',
        f'        words="{" ".join(first)}"',
        "    else",
        '        case "$command $previous" in',
    ]
    for command in commands:
        for word in (word for word in command.words if word.flags and word.takes_value):
            pattern = "|".join(f'"{command.name} {flag}"' for flag in word.flags)
            does = "files=1" if word.is_file else f'words="{" ".join(word.choices)}"'
            lines.append(f"        {pattern}) {does} ;;")
    lines += ['        *) case "$command" in']
    for command in commands:
        alone = [word for word in command.words if not word.flags]
        choices = [choice for word in alone for choice in word.choices]
        does = f'words="{" ".join([*command.flags, *choices])}"'
        does += "; files=1" if any(word.is_file for word in alone) else ""
        lines.append(f"            {command.name}) {does} ;;")
    return [
        *lines,
        "            esac ;;",
        "        esac",
        "    fi",
        "    IFS=$'\\n'",
        '    COMPREPLY=($(IFS=$\' \\t\\n\'; compgen -W "$words" -- "$current"))',
        '    if [ -n "$files" ]; then',
        "        compopt -o filenames 2>/dev/null",
        '        COMPREPLY+=($(compgen -f -- "$current"))',
        "    fi",
        "}",
        f"complete -F _{program} {program}",
    ]


def _zsh(program: str, commands: list[Command], common: tuple[Word, ...]) -> list[str]:
    flags = [flag for word in common for flag in word.flags]
    lines = [f"#compdef {program}", f"_{program}() {{", "    local -a commands", "    commands=("]
    lines += [f"        {_quoted(f'{each.name}:{each.help}')}" for each in commands]
    lines += [
        "    )",
        "    if (( CURRENT == 2 )); then",
        f"        [[ $PREFIX == -* ]] && compadd -- {' '.join(flags)} && return",
        "        _describe command commands",
        "        return",
        "    fi",
        "    local command=$words[2]",
        "    shift words",
        "    (( CURRENT-- ))",
        "    case $command in",
    ]
    for command in commands:
        lines.append(f"        {command.name}) _arguments \\")
        lines += [f"            {_zsh_word(word)} \\" for word in command.words]
        lines.append("            ;;")
    return [
        *lines,
        "    esac",
        "}",
        f'if [ "$funcstack[1]" = "_{program}" ]; then',
        f'    _{program} "$@"',
        "else",
        f"    compdef _{program} {program}",
        "fi",
    ]


def _zsh_word(word: Word) -> str:
    """One specification of `_arguments`."""
    values = f"({' '.join(word.choices)})" if word.choices else "_files" * word.is_file
    following = f":value:{values}" if word.takes_value else ""
    if not word.flags:
        return _quoted(f"*{following}")
    text = word.help.translate(str.maketrans({"[": "(", "]": ")", ":": ";"}))
    return " ".join(_quoted(f"{flag}[{text}]{following}") for flag in word.flags)


def _fish(program: str, commands: list[Command], common: tuple[Word, ...]) -> list[str]:
    start = f"complete -c {program}"
    lines = [f"{start} -f"]
    for word in common:
        lines.append(f"{start} -n __fish_use_subcommand {_fish_word(word)}")
    for command in commands:
        about = f"-a {command.name} -d {_quoted(command.help)}"
        lines.append(f"{start} -n __fish_use_subcommand {about}")
        inside = f"-n '__fish_seen_subcommand_from {command.name}'"
        lines += [f"{start} {inside} {_fish_word(word)}" for word in command.words]
    return lines


def _fish_word(word: Word) -> str:
    """The options of `complete` for one word."""
    parts = [
        f"-l {flag.removeprefix('--')}" if flag.startswith("--") else f"-s {flag[1:]}"
        for flag in word.flags
    ]
    if word.flags and word.takes_value:
        parts.append("-r -F" if word.is_file else "-x")
    elif word.is_file:
        parts.append("-F")
    if word.choices:
        parts.append(f"-a {_quoted(' '.join(word.choices))}")
    return " ".join([*parts, f"-d {_quoted(word.help)}"])


def _quoted(text: str) -> str:
    """In single quotes, as all three shells read them."""
    return "'" + text.replace("'", "’") + "'"

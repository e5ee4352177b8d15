"""`jaxdp completion`: scripts that complete commands, options and their values in a shell.

They are written from the parser, once, when the script is made: the shell starts no Python at a
press of the tab key. Zsh reads the script of Bash.
"""

import argparse
import pathlib
from typing import Any

_BASH = """\
_{program}() {{
    local IFS=$' \\t\\n' current=${{COMP_WORDS[COMP_CWORD]}} known= files=
    local command=${{COMP_WORDS[1]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
    if [ "$COMP_CWORD" -eq 1 ]; then
        known="{first}"
    else
        case "$command $previous" in
{cases}
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


def completion(options: argparse.Namespace) -> None:
    """Print the script of a shell."""
    if options.shell == "zsh":
        print("autoload -U +X bashcompinit && bashcompinit")
    write = _fish if options.shell == "fish" else _bash
    print(write(options.parser), end="")


def _commands(parser: argparse.ArgumentParser) -> list[tuple[str, str, list[argparse.Action]]]:
    """Name and meaning of each command, and the words that may follow it."""
    action: Any
    (action,) = (each for each in parser._actions if _has_commands(each))
    meanings = [each.help for each in action._choices_actions]
    words = map(_words, action.choices.values())
    return list(zip(action.choices, meanings, words, strict=True))


def _words(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The options of a parser, and the values that stand alone."""
    return [action for action in parser._actions if not _has_commands(action)]


def _has_commands(action: argparse.Action) -> bool:
    return isinstance(action, argparse._SubParsersAction)


def _flags(words: list[argparse.Action]) -> list[str]:
    return [flag for word in words for flag in word.option_strings]


def _bash(parser: argparse.ArgumentParser) -> str:
    names, cases = [], []
    for name, _, words in _commands(parser):
        names.append(name)
        alone = [word for word in words if not word.option_strings]
        for word in words:
            if word.option_strings and word.nargs != 0:
                pattern = "|".join(f'"{name} {flag}"' for flag in word.option_strings)
                cases.append(f"        {pattern}) {_bash_offer([word], word.choices or ())} ;;")
        known = [*_flags(words), *(choice for word in alone for choice in word.choices or ())]
        # After the cases of its options, of which the first that matches is taken.
        cases.append(f'        "{name} "*) {_bash_offer(alone, known)} ;;')
    first = " ".join([*_flags(_words(parser)), *names])
    return _BASH.format(program=parser.prog, first=first, cases="\n".join(cases))


def _bash_offer(words: list[argparse.Action], known) -> str:
    files = "files=1 " * any(word.type is pathlib.Path for word in words)
    return f'{files}known="{" ".join(known)}"'


def _fish(parser: argparse.ArgumentParser) -> str:
    start = f"complete -c {parser.prog}"
    begin = f"{start} -n __fish_use_subcommand"
    lines = [f"{start} -f", *(f"{begin} {_fish_word(word)}" for word in _words(parser))]
    for name, meaning, words in _commands(parser):
        lines.append(f"{begin} -a {name} -d {_quoted(meaning)}")
        inside = f"{start} -n '__fish_seen_subcommand_from {name}'"
        lines += [f"{inside} {_fish_word(word)}" for word in words]
    return "\n".join(lines) + "\n"


def _fish_word(word: argparse.Action) -> str:
    """The options of Fish's `complete` for one option, or one value that stands alone."""
    flags, is_file = word.option_strings, word.type is pathlib.Path
    parts = [f"-l {flag[2:]}" if flag[1] == "-" else f"-s {flag[1:]}" for flag in flags]
    if flags and word.nargs != 0:
        parts.append("-r -F" if is_file else "-x")
    elif is_file:
        parts.append("-F")
    if word.choices:
        parts.append(f"-a {_quoted(' '.join(map(str, word.choices)))}")
    return " ".join([*parts, f"-d {_quoted(word.help)}"])


def _quoted(text: str | None) -> str:
    """In single quotes, as Fish reads them."""
    return "'" + (text or "").replace("'", "’") + "'"

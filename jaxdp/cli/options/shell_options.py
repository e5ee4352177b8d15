"""The options of `jaxdp doctor` and `jaxdp completion`, which are about the installation itself."""

import argparse

SHELLS = ("bash", "zsh", "fish")

_INSTALLING = """\
bash: add to ~/.bashrc the line  eval "$(jaxdp completion bash)"
zsh:  add to ~/.zshrc, after compinit, the line  eval "$(jaxdp completion zsh)"
fish: jaxdp completion fish > ~/.config/fish/completions/jaxdp.fish"""


def add_doctor(commands) -> None:
    """Add the command to the parsers of `jaxdp`."""
    doctor = commands.add_parser(
        "doctor",
        help="what is installed, what JAX runs on, and a self-test of some seconds",
        description=(
            "Versions, devices, precision, the compilation cache, optional packages with the extra "
            "that brings each, and two numbers that are known: exit status 1 where one is wrong."
        ),
        allow_abbrev=False,
    )
    doctor.add_argument("--json", action="store_true", help="print one JSON object")
    doctor.set_defaults(command=_doctor)


def add_completion(commands, parser: argparse.ArgumentParser) -> None:
    """Add the command to the parsers of `jaxdp`.

    Args:
        commands: the parsers.
        parser: what is completed.
    """
    completion = commands.add_parser(
        "completion",
        help="a script that completes this command's options in your shell",
        description="Print a script that completes commands and options with the tab key.",
        epilog=_INSTALLING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    completion.add_argument("shell", choices=SHELLS, help="that you use")

    def command(options: argparse.Namespace) -> None:
        from jaxdp.cli.commands.completion import script

        print(script(parser, options.shell), end="")

    completion.set_defaults(command=command)


def _doctor(options: argparse.Namespace) -> int:
    from jaxdp.cli.commands.doctor import doctor

    return doctor(options)

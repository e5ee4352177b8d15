"""Lets Ctrl-C end `python -m jaxdp` cleanly, from the first import of the package on.

Python imports the package before it runs the module, and importing JAX takes seconds, in which
Ctrl-C would end in a traceback. So the package imports this module first of all. It changes how
Ctrl-C is handled only in a process that runs `python -m jaxdp` or `python -m jaxdp.cli`: any other
process that imports jaxdp handles its signals as it likes. The console script does the same
(`jaxdp_command`).
"""

import signal
import sys

from jaxdp.core.files.interrupts import end_process

_MODULES = ("jaxdp", "jaxdp.cli")


def is_module_run(arguments: list[str], original: list[str]) -> bool:
    """Whether the interpreter is about to run `python -m jaxdp`, and imports its package.

    Args:
        arguments: `sys.argv`, which begins with "-m" just then.
        original: `sys.orig_argv`, which says what is run.
    """
    if arguments[:1] != ["-m"]:
        return False
    after = [
        following if argument == "-m" else argument[2:]
        for argument, following in zip(original, [*original[1:], ""], strict=True)
        if argument.startswith("-m")
    ]
    return after[:1] in ([name] for name in _MODULES)


# Where Ctrl-C is ignored, in a shell script's background, it stays so.
if (
    is_module_run(getattr(sys, "argv", []), sys.orig_argv)
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, end_process)

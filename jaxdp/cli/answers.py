"""Which errors are answers to whoever typed the command, and which are defects of ours.

An answer becomes one line; a defect keeps its traceback, without which nobody can mend it. The
type does not tell them apart: a ValueError may come from a check of an option, or from two arrays
whose shapes a slip of ours made differ. What does is who raised it.
"""

import dis

from jaxdp.core.errors import NotCoveredError
from jaxdp.data.table_columns import UnusableColumnsError

# Of these the file system or the memory has the last word, wherever they come up.
_OF_THE_MACHINE = (OSError, MemoryError)
# No TypeError: whatever is typed has been given its type by the parser.
_OF_CHECKS = (ValueError, RuntimeError, NotCoveredError)


def is_answer(error: BaseException) -> bool:
    """Whether an error is meant for the user.

    It is when a `raise` statement of the toolkit raised it, as every check does, and when a file
    cannot be used or memory is short. An error that Python, NumPy or JAX raises inside the toolkit
    is not: had it been expected, a check would stand before it.
    """
    if isinstance(error, _OF_THE_MACHINE):
        return True
    if isinstance(error, RuntimeError) and str(error).startswith("RESOURCE_EXHAUSTED"):
        # JAX's word for a device without enough memory.
        return True
    return isinstance(error, _OF_CHECKS) and _is_raised_by_us(error)


def as_line(error: BaseException) -> str:
    """What the user is told, in words of the command line."""
    if isinstance(error, UnusableColumnsError):
        numbers = ",".join(map(str, error.columns))
        option = "--drop-constant" if error.is_constant else f"--drop {numbers}".rstrip()
        return error.advised(option)
    return str(error) or type(error).__name__


def _is_raised_by_us(error: BaseException) -> bool:
    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    frame = trace.tb_frame
    module = frame.f_globals.get("__name__", "")
    instruction = dis.opname[frame.f_code.co_code[trace.tb_lasti]]
    return module.split(".")[0] == "jaxdp" and instruction == "RAISE_VARARGS"

"""Which names outside itself a function uses, and how, read off its compiled code.

The code that runs is what is read, and not a file that may have been edited since it was imported.
A name that a function only fills, such as a list it appends to or a counter, cannot change what the
function returns; Python's own instructions say which names those are.
"""

import dataclasses
import dis
import enum
import types
from collections.abc import Iterator

_LOADS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"}
_LOADS |= {"LOAD_FROM_DICT_OR_GLOBALS", "LOAD_FROM_DICT_OR_DEREF"}
_STORES = {"STORE_GLOBAL", "STORE_DEREF", "DELETE_GLOBAL", "DELETE_DEREF"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}
_IGNORED = {"CACHE", "KW_NAMES", "RESUME", "NOP", "EXTENDED_ARG"}
_FILLING = {"append", "extend", "add", "update", "insert", "appendleft", "extendleft", "clear"}


class Effect(enum.Enum):
    """What a function does with a name: read it, fill what it holds, or bind it anew."""

    READ = enum.auto()
    FILL = enum.auto()
    BIND = enum.auto()


@dataclasses.dataclass(frozen=True)
class Use:
    """One place where a function uses a name.

    Attributes:
        name: which one.
        is_free: whether the function's closure holds it, and not its module.
        attributes: those looked up one after the other on what it holds.
        effect: what is done.
    """

    name: str
    is_free: bool
    attributes: tuple[str, ...]
    effect: Effect


@dataclasses.dataclass(frozen=True)
class Import:
    """One import inside a function: `from module import names`, or the module when None."""

    module: str
    level: int
    names: tuple[str, ...] | None


def uses(code: types.CodeType, local: frozenset[str] = frozenset()) -> Iterator[Use]:
    """The names outside a function that it, and the functions inside it, use.

    Args:
        code: of the function.
        local: names that belong to functions around this one, and not to what is outside.
    """
    found = _instructions(code)
    own = local | set(code.co_cellvars)
    for place, instruction in enumerate(found):
        name, kind = instruction.argval, instruction.opname
        is_free = "DEREF" in kind
        if kind in _LOADS | _STORES and not (is_free and name in own):
            if kind in _STORES:
                yield Use(name, is_free, (), Effect.BIND)
            elif not _is_own_increment(found, place):
                effect = Effect.FILL if _is_filled(found, place) else Effect.READ
                yield Use(name, is_free, _attributes(found, place), effect)
    for inner in inner_codes(code):
        yield from uses(inner, own)


def imports(code: types.CodeType) -> Iterator[Import]:
    """The imports inside a function, and inside the functions inside it."""
    found = _instructions(code)
    for place, instruction in enumerate(found):
        if instruction.opname == "IMPORT_NAME":
            level, names = (found[place - back].argval for back in (2, 1))
            yield Import(instruction.argval, level, names)
    for inner in inner_codes(code):
        yield from imports(inner)


def attribute_names(code: types.CodeType) -> set[str]:
    """All attributes that a function, and the functions inside it, look up by name."""
    return set(code.co_names).union(*map(attribute_names, inner_codes(code)))


def inner_codes(code: types.CodeType) -> list[types.CodeType]:
    """The functions, comprehensions and classes that are written inside a function."""
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def _instructions(code: types.CodeType) -> list[dis.Instruction]:
    return [each for each in dis.get_instructions(code) if each.opname not in _IGNORED]


def _attributes(found: list[dis.Instruction], place: int) -> tuple[str, ...]:
    names = []
    for instruction in found[place + 1 :]:
        if instruction.opname not in _ATTRIBUTES:
            break
        names.append(instruction.argval)
    return tuple(names)


def _is_own_increment(found: list[dis.Instruction], place: int) -> bool:
    """Whether a name is loaded for `name += ...` alone."""
    for here, depth in _depths(found, place):
        instruction = found[here]
        if depth == 1:
            is_in_place = instruction.opname == "BINARY_OP" and instruction.argrepr.endswith("=")
            after = found[here + 1]
            return is_in_place and after.opname in _STORES and after.argval == found[place].argval
    return False


def _is_filled(found: list[dis.Instruction], place: int) -> bool:
    """Whether a name is loaded for `name.append(...)`, with nothing returned, or `name[i] = ...`.

    Whether the call fills a container, or does what a class of the user says, its type tells.
    """
    called = found[place + 1]
    if called.opname in _ATTRIBUTES and called.argval in _FILLING:
        # The method, and what it is bound to.
        depths = _depths(found, place + 1, start=2)
        end = next((here for here, depth in depths if depth == 1), None)
        return end is not None and [each.opname for each in found[end : end + 2]] == [
            "CALL",
            "POP_TOP",
        ]
    before = 1
    for here, depth in _depths(found, place):
        if depth <= 1:
            return found[here].opname in ("STORE_SUBSCR", "DELETE_SUBSCR") and before == 2
        # Of `name[i] += ...` the value is read.
        if found[here].opname == "COPY":
            return False
        before = depth
    return False


def _depths(
    found: list[dis.Instruction], place: int, *, start: int = 1
) -> Iterator[tuple[int, int]]:
    """Each later instruction of a straight line, and how deep the stack is after it.

    The value that was loaded at `place` is at depth 1; the line ends where it may branch.
    """
    depth = start
    for here in range(place + 1, len(found)):
        instruction = found[here]
        if "JUMP" in instruction.opname or instruction.opname in (
            "FOR_ITER",
            "SEND",
            "RETURN_VALUE",
        ):
            return
        argument = instruction.arg if instruction.opcode >= dis.HAVE_ARGUMENT else None
        depth += dis.stack_effect(instruction.opcode, argument)
        yield here, depth
        if depth < 1:
            return

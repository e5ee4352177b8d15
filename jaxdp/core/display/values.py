"""How one value is printed: in a few words for a reader, or as Python would write it.

Arrays may be traced, stand for a batch under `vmap`, lie on devices of other processes or hold
private records. What is printed of them ends up in logs and notebooks, so that of private records
only their number is printed, and of keys nothing. What was computed from records is shown like any
other number: the target of a problem that was made from a table, for example, is that table's
least-squares solution.
"""

import functools
import inspect
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

# The longest array whose numbers are listed; longer ones are told by their range.
_MOST_LISTED = 6
# Arrays of more numbers are told by their shape: nobody waits for a line of text.
_MOST_LOOKED_AT = 10_000_000
# Seeds of secret noise have more bits.
_SHOWN_BITS = 64
_MOST_LETTERS = 60


def in_words(value: Any, ndim: int | None = None, *, is_record: bool = False) -> str:
    """A value for a reader: "0.3", "100 numbers, all 1", "20 x 5 array", "traced float32[5]".

    `ndim` is how many axes it has where it is no batch, if that is known; of what `is_record`, rows
    of a table, only the number is told.
    """
    if value is None:
        return "none"
    if is_array(value):
        return _array_in_words(value, ndim, is_record)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        bits = int(value).bit_length()
        return f"{int(value):,}" if bits <= _SHOWN_BITS else f"a number of {bits} bits"
    if isinstance(value, (float, np.floating)):
        return number(value)
    if isinstance(value, str):
        return value if len(value) <= _MOST_LETTERS else f"{value[:_MOST_LETTERS]}..."
    if isinstance(value, dict):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, (list, tuple)):
        return _sequence_in_words(value)
    if isinstance(value, eqx.Module):
        return _module_in_words(value)
    return called(value) if callable(value) else repr(value)


def as_python(value: Any) -> str:
    """A value on one line as a debugger shows it: scalars as numbers, other arrays by shape."""
    if is_array(value) and not value.shape and is_known(value):
        # NumPy prints a float32 in its own precision: 0.3, not 0.30000001.
        return str(np.asarray(value)[()])
    if isinstance(value, (int, np.integer)) and int(value).bit_length() > _SHOWN_BITS:
        return f"<{int(value).bit_length()} bits>"
    if callable(value) and not isinstance(value, eqx.Module):
        return called(value)
    if isinstance(value, tuple) and (maker := _maker(value)):
        return f"<{maker}>"
    is_tree = is_array(value) or isinstance(value, (dict, list, tuple))
    return " ".join((eqx.tree_pformat(value) if is_tree else repr(value)).split())


def is_array(value: Any) -> bool:
    """Whether a value has a shape and a type of numbers, traced or not."""
    return isinstance(value, (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct))


def is_known(value: Any) -> bool:
    """Whether an array's numbers can be looked at from here; those of a key are not."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "biuf"
    if not isinstance(value, jax.Array) or isinstance(value, Tracer) or is_key(value):
        return False
    return value.is_fully_addressable and not value.is_deleted()


def is_key(value: Any) -> bool:
    return jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def number(value: Any) -> str:
    """A number to six digits, which a float32 has."""
    return f"{float(value):.6g}"


def in_full(value: float) -> str:
    """A number in all its digits: "1234567", "0.25"."""
    number = float(value)
    is_whole = number.is_integer() and abs(number) < 1e16
    return f"{number:.0f}" if is_whole else repr(number)


def called(function: Any) -> str:
    """A function's name, with the numbers that a partial fixes."""
    if isinstance(function, functools.partial):
        fixed = [*map(as_python, function.args)]
        fixed += [f"{name}={as_python(value)}" for name, value in function.keywords.items()]
        return f"{called(function.func)}({', '.join(fixed)})"
    plain = inspect.unwrap(function)
    return getattr(plain, "__name__", type(plain).__name__)


def _module_in_words(value: eqx.Module) -> str:
    """A model by its class and its size, where Equinox would list layer after layer."""
    text = repr(value)
    if type(value).__repr__ is not eqx.Module.__repr__ or len(text) <= _MOST_LETTERS:
        return text
    count = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(value, eqx.is_inexact_array)))
    name = type(value).__name__
    return f"{name} of {count:,} parameters" if count else name


def _array_in_words(value: Any, ndim: int | None, is_record: bool) -> str:
    kind = f"{value.dtype}[{','.join(map(str, value.shape))}]"
    if isinstance(value, Tracer):
        return f"traced {kind}"
    if is_key(value):
        return "a random key" if not value.shape else f"{value.size} random keys"
    if is_record:
        columns = f" of {' x '.join(map(str, value.shape[1:]))} numbers" if value.ndim > 1 else ""
        return f"{value.shape[0]:,} rows{columns}" if value.ndim else "a row"
    is_batch = ndim is not None and value.ndim > ndim
    if not is_known(value) or value.size > _MOST_LOOKED_AT or not value.size:
        return kind
    if value.ndim > 1 and not is_batch:
        return f"{' x '.join(f'{length:,}' for length in value.shape)} array"
    inner = value.shape[value.ndim - ndim :] if ndim is not None and is_batch else value.shape
    return _numbers_in_words(np.asarray(value).astype(np.float64), inner, is_batch)


def _numbers_in_words(numbers: np.ndarray, inner: tuple[int, ...], is_batch: bool) -> str:
    """Numbers by list or by range; `inner` is the shape of each where there is a batch."""
    if not numbers.ndim:
        return number(numbers)
    counted = f"{' x '.join(f'{length:,}' for length in inner)} numbers" if inner else ""
    counted += " each" if inner and is_batch else ""
    low, high = numbers.min(), numbers.max()
    if low == high and numbers.size > 1:
        text = f"all {number(low)}"
    elif numbers.size <= _MOST_LISTED:
        return ", ".join(map(number, numbers.ravel()))
    elif np.isfinite(numbers).all():
        text = f"{number(low)} to {number(high)}"
    else:
        text = f"{int((~np.isfinite(numbers)).sum())} of {numbers.size} not finite"
    return f"{counted}, {text}" if counted else text


def _sequence_in_words(values: Any) -> str:
    if maker := _maker(values):
        return maker
    if len(values) > _MOST_LISTED:
        return f"{len(values)} items"
    return ", ".join(map(in_words, values)) or "none"


def _maker(values: Any) -> str:
    """The name of the maker of some functions, such as an optax transformation's, or ""."""
    if not values or not all(map(callable, values)):
        return ""
    plain = [inspect.unwrap(each) for each in values]
    makers = {getattr(each, "__qualname__", "").partition(".<locals>") for each in plain}
    names = {before for before, mark, _ in makers if mark}
    if len(names) != 1 or len(makers) != len(values):
        return ""
    return f"made by {plain[0].__module__.partition('.')[0]}.{names.pop()}"

"""One-token edits of a function's surroundings, and the digest of its program after each.

Run as a script it prints the digest of the unchanged function's program, for another process.
"""

import importlib
import pathlib
import sys
import tempfile

import jax.random as jr
import numpy as np

from jaxdp.sweeps.axes import as_axes
from jaxdp.sweeps.program import Program

GRID = """
import collections
import dataclasses
import enum
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import user_tools
import settings
from user_tools import doubled
from package import constants

TABLE = {"rate": 2.0, "nested": {"values": [1.0, 2.0]}}
RATES = [1.0, 2.0]
NAMES = {"first", "second", "third"}
WEIGHTS = np.array([1.0, 2.0])
UNUSED = 5.0
LOG = []
Point = collections.namedtuple("Point", "x y", defaults=(7.0,))


class Mode(enum.Enum):
    FAST = 1.5
    SLOW = 2.5


class Base:
    offset = 1.0

    def shift(self, c):
        return c + 10.0


class Other(Base):
    def shift(self, c):
        return c + 12.0


class Scale(Base):
    def __init__(self):
        self.factor = 3.0

    def __call__(self, c):
        return c * self.factor + self.half

    @property
    def half(self):
        return 0.5

    @staticmethod
    def third():
        return 0.25

    @functools.cached_property
    def table(self):
        return [4.0]


class Model(eqx.Module):
    weight: jax.Array = eqx.field(converter=lambda value: jnp.asarray(value) + 0.125)
    power: int = eqx.field(static=True, default=2)

    @eqx.filter_jit
    def __call__(self, c):
        return self.weight * c**self.power


@dataclasses.dataclass
class Options:
    rate: float = 0.75
    steps: list = dataclasses.field(default_factory=lambda: [6.0])


def recorded(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments) + 20.0

    return wrapper


@recorded
def wrapped(c):
    return c * 30.0


@jax.jit
def compiled(c):
    return c * 40.0


@functools.lru_cache
def cached(count):
    return count + 50


def closed(options):
    def inner(c):
        return c * options["gain"]

    return inner


def even(count):
    return True if count == 0 else odd(count - 1)


def odd(count):
    return 60 == count if count < 62 else even(count - 1)


scale, model, options = Scale(), Model(1.0), Options()
held = closed({"gain": 70.0})
bound = functools.partial(user_tools.raised, power=80.0)
shift = scale.shift
squared = lambda c: c * c; cubed = lambda c: c * c * 90.0
gradient = jax.grad(lambda c, d: c**3.5 * d**2)


def risk(key, c, *, default=100.0):
    # a comment
    from user_tools import imported
    import package.late

    LOG.append(c)
    total = c * sum(jax.tree.leaves(TABLE["rate"])) + sum(RATES) + len("".join(NAMES))
    total += WEIGHTS.sum() + default
    for leaf in jax.tree.leaves(list(TABLE.values())):
        total = total * c + leaf
    for part in (scale.offset, scale.third(), scale.table[0], options.steps[0]):
        total = total * c + part
    total += settings.RATE + user_tools.deep() + doubled(c) + constants.SIZE + imported()
    total += scale(c) + model(c) + options.rate + shift(c) + Mode.FAST.value + Point(1.0).y
    total += wrapped(c) + compiled(c) + cached(1) + held(c) + bound(c) + even(62) + cubed(c)
    total += gradient(c, c) + package.late.AMOUNT + sum(c * 110.0 for _ in range(2))
    return {"total": total}
"""
FILES = {
    "grid.py": GRID,
    "settings.py": "RATE = 3.0\nOTHER = 4.0\n",
    "user_tools.py": (
        "import settings as config\n\nINNER = {'a': 1.0}\n\n\ndef deep():\n"
        "    return deeper() * config.RATE\n\n\ndef deeper():\n    return INNER['a']\n\n\n"
        "def doubled(c):\n    return 2.0 * c\n\n\ndef raised(c, power):\n    return c**power\n\n\n"
        "def imported():\n    return 8.0\n\n\ndef unused():\n    return 9.0\n"
    ),
    "package/__init__.py": "",
    "package/constants.py": "SIZE = 11.0\n",
    "package/late.py": "AMOUNT = 12.0\nUNUSED = 13.0\n",
}
# File, token and what is put in its place.
SEEN = {
    "a dict of the module": ("grid.py", '"rate": 2.0', '"rate": 2.5'),
    "what a dict of the module nests": ("grid.py", '"values": [1.0', '"values": [1.5'),
    "the order of a dict": ("grid.py", '"rate": 2.0, "nested"', '"nested": 2.0, "rate"'),
    "a list of the module": ("grid.py", "RATES = [1.0", "RATES = [1.5"),
    "a set of the module": ("grid.py", '"third"}', '"fourth"}'),
    "an array of the module": ("grid.py", "np.array([1.0", "np.array([1.5"),
    "a method of a class": ("grid.py", "c * self.factor", "c + self.factor"),
    "an attribute of an object": ("grid.py", "self.factor = 3.0", "self.factor = 3.5"),
    "a property": ("grid.py", "return 0.5", "return 0.6"),
    "a static method": ("grid.py", "return 0.25", "return 0.35"),
    "a cached property": ("grid.py", "return [4.0]", "return [4.5]"),
    "an attribute of a base class": ("grid.py", "offset = 1.0", "offset = 1.5"),
    "a method of a base class": ("grid.py", "c + 10.0", "c + 10.5"),
    "the base class": ("grid.py", "class Scale(Base)", "class Scale(Other)"),
    "a method of a module of Equinox": ("grid.py", "self.weight * c**", "self.weight + c**"),
    "a field's converter": ("grid.py", "+ 0.125", "- 0.125"),
    "a field's default": ("grid.py", "default=2)", "default=3)"),
    "a field of a dataclass": ("grid.py", "rate: float = 0.75", "rate: float = 0.85"),
    "a field's factory": ("grid.py", "[6.0]", "[6.5]"),
    "a member of an enumeration": ("grid.py", "FAST = 1.5", "FAST = 1.6"),
    "a named tuple's default": ("grid.py", "(7.0,)", "(7.5,)"),
    "a decorator": ("grid.py", "+ 20.0", "+ 20.5"),
    "a decorated function": ("grid.py", "c * 30.0", "c * 30.5"),
    "a compiled function": ("grid.py", "c * 40.0", "c * 40.5"),
    "a cached function": ("grid.py", "count + 50", "count + 51"),
    "a dict in the closure": ("grid.py", '"gain": 70.0', '"gain": 70.5'),
    "functions that call each other": ("grid.py", "60 == count", "61 == count"),
    "an argument of a partial": ("grid.py", "power=80.0", "power=80.5"),
    "a lambda beside another": ("grid.py", "c * 90.0", "c * 91.0"),
    "which lambda of a line": ("grid.py", "+ cubed(c)", "+ squared(c)"),
    "what a transformation transforms": ("grid.py", "c**3.5", "c**4.5"),
    "the transformation": ("grid.py", "jax.grad(", "jax.hessian("),
    "an option of a transformation": ("grid.py", "d**2)\n", "d**2, 1)\n"),
    "a default": ("grid.py", "default=100.0", "default=101.0"),
    "a function inside": ("grid.py", "c * 110.0", "c * 111.0"),
    "an attribute of a module": ("settings.py", "RATE = 3.0", "RATE = 3.5"),
    "a helper of another module": ("user_tools.py", "2.0 * c", "2.5 * c"),
    "a dict that a helper's helper names": ("user_tools.py", "'a': 1.0", "'a': 1.5"),
    "a function that a partial calls": ("user_tools.py", "c**power", "c*power"),
    "a function that is imported late": ("user_tools.py", "return 8.0", "return 8.5"),
    "an attribute of a module of a package": ("package/constants.py", "11.0", "11.5"),
    "a module that is imported late": ("package/late.py", "AMOUNT = 12.0", "AMOUNT = 12.5"),
}
UNSEEN = {
    "nothing": ("grid.py", "UNUSED", "UNUSED"),
    "a comment inside the function": ("grid.py", "# a comment", "# another"),
    "a comment before it": ("grid.py", "def risk(", "# new\n\n\ndef risk("),
    "a global that is not named": ("grid.py", "UNUSED = 5.0", "UNUSED = 5.5"),
    "a list that the function only fills": ("grid.py", "LOG = []", "LOG = [1]"),
    "an attribute of a module that is not named": ("settings.py", "OTHER = 4.0", "OTHER = 4.5"),
    "a helper that is not called": ("user_tools.py", "return 9.0", "return 9.5"),
    "a constant of a late module": ("package/late.py", "UNUSED = 13.0", "UNUSED = 13.5"),
    "the order of a set": ("grid.py", '"first", "second"', '"second", "first"'),
}


def digests(folder, made):
    """The digest of the function's program after each of some edits, by the edit."""
    found = {}
    for number, (name, (file, old, new)) in enumerate(made.items()):
        place = pathlib.Path(folder, str(number))
        for path, content in FILES.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            if path == file:
                assert content.count(old) >= 1, name
                content = content.replace(old, new, 1)
            (place / path).write_text(content)
        found[name] = _digest_in(place)
    return found


def program_digest(function, values=(1.0, 2.0)):
    """The digest of the program of a function of one axis, c."""
    return Program(function, as_axes({"c": np.array(values)}), 0, jr.key(0)).digest()


def _digest_in(place):
    """The digest of the function of a folder's module, which another folder's does not replace."""
    own = {path.partition(".")[0].partition("/")[0] for path in FILES}
    sys.path.insert(0, str(place))
    importlib.invalidate_caches()
    try:
        return program_digest(importlib.import_module("grid").risk)
    finally:
        sys.path.remove(str(place))
        for name in [name for name in sys.modules if name.partition(".")[0] in own]:
            del sys.modules[name]


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory() as folder:
        print(digests(folder, {"nothing": UNSEEN["nothing"]})["nothing"])

"""Every program that a process compiles, lowered for a TPU and for a GPU where there is neither."""

import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import jax.scipy.special
from jax.extend.core import Primitive

PLATFORMS = ("tpu", "cuda")
_OF_JAX = (jnp, jnp.fft, jnp.linalg, jax.nn, jax.scipy.linalg, jax.scipy.special)


class Programs:
    """The programs of this process."""

    def __init__(self):
        self.names: list[str] = []
        self.faults: list[str] = []
        self.seconds = 0.0
        # Held, so that no two have the same address.
        self._jaxprs: dict[int, Any] = {}
        self._operations: set[Any] = set()
        self._lock = threading.RLock()

    def see(self, jitted: Any, arguments: tuple, named: dict[str, Any]) -> None:
        """Lower a function for the arguments that it is given, once for each of their types."""
        if self._is_left_out((arguments, named)):
            return
        begun = time.process_time()
        with self._lock:
            traced = jitted.trace(*arguments, **named)
            if id(traced.jaxpr) not in self._jaxprs:
                self._jaxprs[id(traced.jaxpr)] = traced.jaxpr
                self._lower(traced, jitted.__name__)
            self.seconds += time.process_time() - begun

    def see_operation(self, operation: Primitive, arguments: tuple, named: dict[str, Any]) -> None:
        """Lower an operation that is called by itself, once for each of its arguments' types."""
        if type(operation) is not Primitive:  # a call, of functions that can be traced only once
            return
        kind = (operation.name, *(str(jnp.result_type(one)) for one in arguments))
        if kind not in self._operations and not self._is_left_out(arguments):
            self._operations.add(kind)
            alone = functools.partial(operation.bind, **named)
            alone.__name__ = operation.name
            self.see(jax.jit(alone), arguments, {})

    def _is_left_out(self, arguments: Any) -> bool:
        """Whether the host computes, or another program is traced, of which this is a part."""
        leaves = jax.tree.leaves(arguments)
        is_part = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
        return is_part or jax.config.jax_default_device is not None

    def _lower(self, traced: Any, name: str) -> None:
        self.names.append(name)
        if jnp.result_type(float) == jnp.float64:
            self.faults.append(f"{name}: float64, and not on the host")
        for platform in PLATFORMS:
            try:
                traced.lower(lowering_platforms=(platform,))
            except Exception as error:
                self.faults.append(f"{name}, {platform}: {type(error).__name__}: {error}")


def watched() -> Programs:
    """The programs of this process from now on; call it before jaxdp and Equinox are imported."""
    assert not {"equinox", "jaxdp"} & sys.modules.keys()
    programs, jit, bind = Programs(), jax.jit, Primitive.bind

    def seen(jitted: Any) -> Callable:
        @functools.wraps(jitted)
        def call(*arguments, **named):
            programs.see(jitted, arguments, named)
            return jitted(*arguments, **named)

        def lower(*arguments, **named):
            programs.see(jitted, arguments, named)
            return jitted.lower(*arguments, **named)

        call.lower = lower
        for name in ("trace", "eval_shape", "clear_cache"):
            setattr(call, name, getattr(jitted, name))
        return call

    @functools.wraps(jit)
    def seeing(*function, **options):
        return seen(jit(*function, **options)) if function else functools.partial(seeing, **options)

    def bound(operation: Primitive, *arguments, **named):
        programs.see_operation(operation, arguments, named)
        return bind(operation, *arguments, **named)

    jax.jit = seeing
    Primitive.bind = bound
    for module in _OF_JAX:
        for name, value in list(vars(module).items()):
            if callable(value) and hasattr(value, "lower"):
                setattr(module, name, seen(value))
    jax.default_backend = lambda: PLATFORMS[0]
    return programs

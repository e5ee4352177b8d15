"""How the programs of tests are compiled: as the run asks for, save for those that run long."""

import os

import jax
import pytest
from jax._src.interpreters import mlir

# Quick and slow tests are not compiled alike by every command.
in_every_run = pytest.mark.parametrize(
    "kind", ["quick", pytest.param("slow", marks=pytest.mark.slow)]
)


@pytest.mark.long_runs
@in_every_run
def test_what_runs_longer_than_it_compiles_is_optimised(kind):
    assert not jax.config.read("jax_disable_most_optimizations")


@in_every_run
def test_everything_else_is_compiled_as_the_run_asks_for(kind):
    asked = os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS", "0")
    assert jax.config.read("jax_disable_most_optimizations") == (asked == "1")


def test_a_program_that_is_written_while_another_is_has_a_context_of_its_own():
    # One of two in a row may be the first of the next context.
    one, other, third = (mlir.make_ir_context() for _ in range(3))
    assert one is other or other is third
    with third:
        assert mlir.make_ir_context() is not third

"""What one process of the benchmark of first answers runs, and the seconds it says that it took.

It is started by path, with nothing but a tree's `jaxdp` to import, so that any tree can be timed.
"""

import contextlib
import io
import json
import sys
import time
from collections.abc import Iterator

_TRACING = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
)
_COMPILING = "/jax/core/compile/backend_compile_duration"
_FOUND = "/jax/compilation_cache/cache_hits"

_FRONT = """
problem = jaxdp.LinearRegression.isotropic(dim=1000, label_noise=0.3)
algorithm = jaxdp.OnePassDPSGD(
    jaxdp.Polynomial(3.0, power=0.5), clip_scale=1.0, rho=1.0, num_steps=10_000
)
"""
_SIMULATED = "simulated = jaxdp.simulate(problem, algorithm, num_runs=10, key=jax.random.key(0))\n"
_PREDICTED = "predicted = jaxdp.predict(problem, algorithm)\n"
BLOCKS = {
    "front page: predict": f"{_FRONT}{_PREDICTED}float(predicted.final_risk)",
    "front page: simulate": f"{_FRONT}{_SIMULATED}simulated.final_risk.tolist()",
    "front page": (
        f"{_FRONT}{_SIMULATED}{_PREDICTED}cost = jaxdp.account(algorithm, delta=1e-5)\n"
        "print(jaxdp.compare(simulated, predicted), cost)"
    ),
    "plan a budget": """
problem = jaxdp.LinearRegression.isotropic(200, label_noise=0.3)
print(jaxdp.plan(problem, num_samples=20_000, epsilon=2.0, delta=1e-5))
""",
}


class Listener:
    """When JAX traced and compiled, and how often."""

    def __init__(self, started: tuple[float, float]) -> None:
        """Listen from now on.

        Args:
            started: on the clock and in processor seconds, when the imports began.
        """
        import jax.monitoring

        self._clear()
        self.importing, self.started = time.perf_counter() - started[0], started
        jax.monitoring.register_event_duration_secs_listener(self._on_duration)
        jax.monitoring.register_event_listener(self._on_event)

    def _clear(self) -> None:
        self.tracing: list[tuple[float, float]] = []
        self.compiling: list[tuple[float, float]] = []
        self.found, self.importing = 0, 0.0
        self.started = time.perf_counter(), time.process_time()

    def _on_duration(self, event: str, duration_secs: float, **_) -> None:
        now = time.perf_counter()
        if event in _TRACING:
            self.tracing.append((now - duration_secs, now))
        elif event == _COMPILING:
            self.compiling.append((now - duration_secs, now))

    def _on_event(self, event: str, **_) -> None:
        self.found += event == _FOUND

    def summary(self) -> dict[str, float]:
        """What has been since the last summary, in seconds, and how many programs."""
        seconds, processor = (
            now - before
            for now, before in zip(
                (time.perf_counter(), time.process_time()), self.started, strict=True
            )
        )
        # One program is compiled while another is traced, and traces lie within traces.
        compiling = _covered(self.compiling)
        either = _covered(self.tracing + self.compiling)
        summary = {
            "programs": len(self.compiling),
            "compiled": len(self.compiling) - self.found,
            "importing": self.importing,
            "tracing": either - compiling,
            "compiling": compiling,
            "running": seconds - self.importing - either,
            "seconds": seconds,
            "processor": processor,
        }
        self._clear()
        return summary


def _covered(spans: list[tuple[float, float]]) -> float:
    """Seconds that lie in at least one of the spans."""
    total, reached = 0.0, float("-inf")
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, reached))
        reached = max(reached, last)
    return total


def _summaries(case: str) -> Iterator[dict[str, float]]:
    """Of a block the first time and again; of a command, given as it is typed, the one time."""
    started = time.perf_counter(), time.process_time()
    if case in BLOCKS:
        import jax

        import jaxdp

        listener = Listener(started)
        for _ in range(2):
            exec(BLOCKS[case], {"jax": jax, "jaxdp": jaxdp})
            yield listener.summary()
        return
    with contextlib.suppress(ModuleNotFoundError):
        # Trees of earlier have none.
        from jaxdp.cli.programs import keep_programs

        keep_programs()
    import jaxdp
    import jaxdp.cli

    listener = Listener(started)
    sys.argv = case.split()
    status = jaxdp.cli.main()
    assert status == 0, f"{case} ended with status {status}"
    yield listener.summary()


if __name__ == "__main__":
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        found = list(_summaries(sys.argv[1]))
    print(json.dumps(found))

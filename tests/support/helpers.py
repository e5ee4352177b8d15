"""What several test files share: assertions, references without jaxdp, noise that is known."""

import functools
import importlib.util
from collections.abc import Mapping

import jax
import jax.monitoring
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import erfc, gammainc
from scipy.stats import chi2, norm, t

import jaxdp
from jaxdp import cli
from jaxdp.privacy import SecretNoise

# The level of tests of laws and of audits: one fails by chance under one seed in a million. What is
# wrong is rejected at this level too, by samples so many that it is as certain.
FALSE_ALARM = 1e-6

# Free rates and clip of sixteen correlated steps of least predicted risk, at gamma = .01, rho = 1
# and label noise .3.
_RATES = [2.43853623, 1.39810812, 0.89467364, 0.61117665, 0.4460066, 0.34492783, 0.27863031]
_RATES += [0.23244279, 0.1986727, 0.17301166, 0.15289282, 0.13670062, 0.12336395, 0.11212577]
_RATES += [0.10237566, 0.0933619]
BEST_OF_SIXTEEN = {"rates": _RATES, "clip_scale": 0.40216705, "rho": 1.0, "batch_size": 625}


class MadeWhenAsked(Mapping):
    """A table of functions without arguments, whose values are made when they are asked for."""

    def __init__(self, makers):
        self._makers = makers
        self._made = functools.cache(lambda name: makers[name]())

    def __getitem__(self, name):
        return self._made(name)

    def __iter__(self):
        return iter(self._makers)

    def __len__(self):
        return len(self._makers)


class Unreadable:
    """A table that fails as soon as anybody looks at it."""

    def __array__(self, dtype=None, copy=None):
        raise OSError("the data were looked at")


def quick_and_slow(names, *quick):
    """Parameters of a test: all names, of which those that are not `quick` are marked slow."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


def assert_mean_close(samples, expected, *, sigmas=5.0, bias=0.0, rejects=()):
    """Means over the leading axis lie within `sigmas` standard errors plus `bias`.

    The level of so many of one normal mean is shared among all means, and is that of Student's t.
    The same check has to refuse each of `rejects`.
    """
    for wrong in rejects:
        assert np.all(np.isfinite(wrong)), "a wrong value has to be a number to be refused for it"
        with pytest.raises(AssertionError, match="standard error"):
            assert_mean_close(samples, wrong, sigmas=sigmas, bias=bias)
    samples = np.asarray(samples, np.float64)
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    gap = np.abs(samples.mean(axis=0) - np.asarray(expected, np.float64))
    sigmas = t.isf(norm.sf(sigmas) / gap.size, len(samples) - 1)
    worst = np.argmax(gap - sigmas * error - bias)
    assert np.all(gap <= sigmas * error + bias), (
        f"gap {gap.flat[worst]:.3e} at {worst}, standard error {np.ravel(error)[worst]:.3e}, "
        f"bias {bias:.1e}"
    )


def assert_std_close(samples, expected, *, sigmas=5.0, bias=0.0, rejects=()):
    """Standard deviations over the leading axis: as `assert_mean_close`, relative to `expected`.

    The standard error follows from the fourth central moment.
    """
    for wrong in rejects:
        assert np.all(np.isfinite(wrong)), "a wrong value has to be a number to be refused for it"
        with pytest.raises(AssertionError, match="standard error"):
            assert_std_close(samples, wrong, sigmas=sigmas, bias=bias)
    samples = np.asarray(samples, np.float64)
    centred = samples - samples.mean(axis=0)
    variance = np.mean(centred**2, axis=0)
    excess = np.mean(centred**4, axis=0) / variance**2 - 1
    error = np.sqrt(excess / (4 * len(samples)))
    gap = np.abs(np.sqrt(variance) / np.asarray(expected, np.float64) - 1)
    sigmas = norm.isf(norm.sf(sigmas) / gap.size)
    worst = np.argmax(gap - sigmas * error - bias)
    assert np.all(gap <= sigmas * error + bias), (
        f"relative gap {gap.flat[worst]:.3f} at {worst}, standard error "
        f"{np.ravel(error)[worst]:.3f}, bias {bias:.3f}"
    )


def assert_runs_close(runs, predicted, *, bias=0.0, observables=None, rejects=()):
    """Simulated runs have the predicted mean risk after the start and where they are released.

    `observables` are compared too, by name and bias; each of `rejects` has to be refused.
    """
    for wrong in rejects:
        with pytest.raises(AssertionError, match="standard error"):
            assert_runs_close(runs, wrong, bias=bias, observables=observables)
    assert_mean_close(runs.risk[:, 1:], predicted.risk[1:], bias=bias)
    assert_mean_close(runs.final_risk, predicted.final_risk, bias=bias)
    for name, allowed in (observables or {}).items():
        found, expected = (trajectory.observables[name] for trajectory in (runs, predicted))
        assert_mean_close(found[:, 1:], expected[1:], bias=allowed)


def assert_variance(samples, expected):
    """Normal numbers of mean zero, independent over the leading axis, have this variance."""
    samples = np.asarray(samples, np.float64)
    total, count = np.sum(samples**2, axis=0) / expected, len(samples)
    level = np.min(2 * np.minimum(chi2.cdf(total, count), chi2.sf(total, count)))
    assert level > FALSE_ALARM, f"ratios of variances {total / count}, the level is {level:.1e}"


def reference_moments(ratio):
    """mu and nu of AC Lemma 11 in float64, by incomplete gamma functions."""
    mu = 1 - erfc(ratio / np.sqrt(2))
    nu = ratio**2 * erfc(ratio / np.sqrt(2)) + gammainc(1.5, ratio**2 / 2)
    return mu, nu


def reference_risk(
    *,
    eigenvalues,
    weights,
    initial,
    gamma,
    rho,
    label_noise,
    clip_scale,
    rate,
    square_slope,
    times,
    warp=2.0,
    scales=((1.0, 1.0),),
    width=np.inf,
):
    """Risk by AC (62) in float64, in the variables of the paper.

    The noise enters through -d(rate^2)/dt = `square_slope`(t), on a clock t = 1 - (1 - s)^warp.
    `weights` are lambda_i d_i / d, `initial` the D_i(0), `scales` are (value, probability), and
    `width` is that of Huber's loss.
    """
    eigenvalues, weights = np.asarray(eigenvalues), np.asarray(weights)

    def field(s, modes):
        left = (1 - s) ** warp
        time = 1 - left
        speed = warp * (1 - s) ** (warp - 1)
        # A trial stage across a steep drop may leave the range.
        risk = max(weights @ modes, 0)
        drift = np.zeros_like(modes)
        for scale, share in scales:
            variance = 2 * scale * risk + label_noise**2
            cut = min(clip_scale / np.sqrt(scale), width)
            mu, nu = reference_moments(cut / np.sqrt(variance))
            step = min(rate(time), 2 / (gamma * scale))
            drift -= 2 * share * scale * step * mu * eigenvalues * modes
            drift += share * scale * step**2 * nu * variance / 2 * gamma * eigenvalues
        return drift * speed + 2 * (clip_scale * gamma / rho) ** 2 * square_slope(s, speed)

    clock = 1 - (1 - np.asarray(times)) ** (1 / warp)
    solution = solve_ivp(
        field,
        (0, 1),
        np.asarray(initial, float),
        t_eval=clock,
        method="DOP853",
        rtol=1e-11,
        atol=1e-13,
        max_step=0.01,
    )
    assert solution.success
    return weights @ solution.y


def released_parameters(problem, algorithm, key, num_runs=1):
    """The last parameters of simulated runs, (num_runs, ...)."""
    how = {"simulator": jaxdp.Iterates(), "keep_parameters": True, "records": 1}
    return jaxdp.simulate(problem, algorithm, key=key, num_runs=num_runs, **how).parameters


def programs_compiled(function, *arguments):
    """How many programs JAX compiles while a function runs."""
    compiled = []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        jax.block_until_ready(function(*arguments))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    return len(compiled)


def give_noise(monkeypatch, normals):
    """Let certified releases take their noise from `normals(purpose, count)`, rounded."""

    def noisy_integers(self, values, std, purpose):
        values = np.asarray(values, np.int64)
        drawn = np.reshape(normals(purpose, values.size), values.shape)
        return values + np.rint(std * drawn).astype(np.int64)

    monkeypatch.setattr(SecretNoise, "noisy_integers", noisy_integers)


def run_cli(capsys, *arguments):
    """Exit status, output and errors of the command line, in this process."""
    try:
        status = cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        status = stop.code
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def module_of(path):
    """A file that is in no package, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

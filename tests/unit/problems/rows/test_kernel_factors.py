"""The largest eigenvalue of a kernel, where its features are, and what it can miss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxdp.problems.rows import kernel_factors
from jaxdp.problems.rows.kernel_factors import lanczos_eigenvalue, largest_eigenvalue


@pytest.mark.parametrize("shape", [(40, 200), (200, 40), (1, 1)])
def test_the_largest_eigenvalue_is_found_where_the_features_are(shape, monkeypatch):
    # Columns of unequal size, as features have that are not centred.
    features = np.random.default_rng(4).normal(size=shape) + 0.5
    exact = np.linalg.norm(features, 2) ** 2
    there = jnp.asarray(features, jnp.float32)
    assert float(lanczos_eigenvalue(there)) == pytest.approx(exact, rel=1e-4)
    assert largest_eigenvalue(there) == pytest.approx(exact, rel=1e-4)
    monkeypatch.setattr(kernel_factors, "is_on_accelerator", lambda value: True)
    monkeypatch.setattr(kernel_factors, "_host_eigenvalue", None)
    assert largest_eigenvalue(there) == pytest.approx(exact, rel=1e-4)
    assert largest_eigenvalue(0 * there) == 0


def _largest_share(component, steps=100):
    """Of the largest eigenvalue, that can be missed from a start with this component along it."""
    return np.tanh(np.arccosh(1 / abs(component)) / (2 * steps - 1)) ** 2


def _hardest_spectrum(share, steps=100):
    """Eigenvalues, the largest 1, and components of a start that misses exactly this share."""
    odd = 2 * steps - 1
    values = (1 - share) * np.sin(np.pi * np.arange(steps) / odd) ** 2
    others = [np.delete(values, place) for place in range(steps)]
    lagrange = [
        np.sum(np.log(1 - other) - np.log(np.abs(value - other)))
        for value, other in zip(values, others, strict=True)
    ]
    weights = np.exp(lagrange - np.log(1 - share - values) / 2)
    top = 1 / np.cosh(odd * np.arctanh(np.sqrt(share)))
    squares = np.append(weights / weights.sum() * (1 - top**2), top**2)
    return np.append(values, 1.0), np.sqrt(squares)


@pytest.mark.parametrize("share", [1e-4, 1e-3])
def test_the_spectrum_that_is_hardest_for_the_start_reaches_the_bound(share):
    values, components = _hardest_spectrum(share)
    assert _largest_share(components[-1]) == pytest.approx(share, rel=1e-9)
    # A mirror turns the components into those of the start of the iterations.
    start = np.random.default_rng(0).standard_normal(len(values))
    start /= np.linalg.norm(start)
    normal = (components - start) / np.linalg.norm(components - start)
    mirror = np.eye(len(values)) - 2 * np.outer(normal, normal)
    with jax.enable_x64():
        found = lanczos_eigenvalue(jnp.asarray(mirror * np.sqrt(values)))
    assert 1 - float(found) == pytest.approx(share, rel=1e-8)
    # The same check sees a polynomial of another degree.
    for steps in (99, 101):
        other = _largest_share(components[-1], steps)
        assert 1 - float(found) != pytest.approx(other, rel=1e-3)


@pytest.mark.parametrize("num_rows", [101, 1500, 100_000])
def test_small_components_of_the_start_are_as_rare_as_stated(num_rows):
    # The square of a component of a uniform direction has a beta law.
    small = 10.0 ** -np.arange(1, 12)
    exact = stats.beta.cdf(small**2, 0.5, (num_rows - 1) / 2)
    stated = np.sqrt(2 * num_rows / np.pi) * small
    assert np.all(exact <= stated)
    # Not by much where it is rare.
    assert np.all(exact[4:] >= 0.98 * stated[4:])
    if num_rows == 100_000:
        rarely = np.sqrt(2 * num_rows / np.pi) / np.cosh(199 * np.arctanh(0.1))
        assert 1e-6 < rarely < 1.1e-6


def test_a_hundred_steps_find_the_top_of_crowded_spectra():
    size = 1500
    place = np.arange(size) / (size - 1)
    crowded = (1 - 0.999 * place, 1 - 0.999 * place**2, (1 + np.cos(np.pi * place)) / 2)
    # The start of the iterations, which the eigenvectors of a diagonal matrix read off.
    start = np.random.default_rng(0).standard_normal(size)
    bound = _largest_share(start[0] / np.linalg.norm(start))
    errors = []
    for values in (*crowded, np.where(place > 0, 0.99 * crowded[2], 1.0)):
        found = lanczos_eigenvalue(jnp.asarray(np.diag(np.sqrt(values)), jnp.float32))
        errors.append(1 - float(found))
    # Not above it but for rounding; hard enough that what is missed is more than rounding.
    assert min(errors) > -1e-5
    assert 1e-5 < max(errors[:3]) < bound < 0.01
    assert abs(errors[3]) < 1e-5

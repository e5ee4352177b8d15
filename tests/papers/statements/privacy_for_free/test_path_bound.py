"""The path bound that keeps clipping from happening at PF (4.3), and the interpolator's length.

Rows on the sphere with labels sign(u.x), n about d^1.3 and p = n^2 features: nothing of jaxdp.
Parameters are seen in the basis of the rows' features, where theta* and all gradients lie.
"""

import math

import numpy as np

SIZES = ((10, 20), (20, 49), (40, 121))


def _kernel(num_train, dim, seed=0):
    """K of tanh features, and the labels."""
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((num_train, dim))
    inputs *= np.sqrt(dim) / np.linalg.norm(inputs, axis=1, keepdims=True)
    features = np.tanh(inputs @ rng.standard_normal((dim, num_train**2)) / np.sqrt(dim))
    return features @ features.T, np.sign(inputs[:, 0])


# Source: PF Appendix A, (A.1).
def test_the_interpolator_is_as_long_as_the_root_of_n_over_p_and_the_loss_as_steep_as_said():
    lengths, steepness = [], []
    for dim, num_train in SIZES:
        kernel, labels = _kernel(num_train, dim)
        noise = np.random.default_rng(1).choice((-1.0, 1.0), num_train)
        inverse = np.linalg.inv(kernel)
        squares = [labels @ inverse @ labels, noise @ inverse @ noise, np.trace(inverse)]
        lengths.append(np.sqrt(squares) * np.sqrt(num_train**2 / num_train))
        # The steepest gradient in the ball of theta*'s radius, at the end that a row points to.
        row, radius = np.sqrt(kernel[0, 0]), np.sqrt(squares[0])
        constant = 2 * row * (radius * row + 1)
        assert constant < 1.4 * 2 * radius * row**2
        steepness.append(constant * radius / num_train)
    teacher, pure_noise, frobenius = np.transpose(lengths)
    # It is level over a factor of six in n, where another half of the exponent would show 2.5.
    for values in (teacher, pure_noise):
        assert values.max() < 1.25 * values.min()
    # Labels of pure noise are those for which the upper bound, |Phi^+|_F, is tight.
    np.testing.assert_allclose(pure_noise, frobenius, rtol=0.15)
    assert np.all(teacher < 0.8 * frobenius)
    # L |theta*| is of the order n, at which the earlier bounds are vacuous.
    assert 1 < max(steepness) < 1.5 * min(steepness)


def _paths(num_train, dim, epsilon, num_runs=40, num_steps=200):
    """DP-GD with and without clipping, of the same noise, at time, clip norm and noise of (4.3).

    Returns:
        Whether a path left the no-clip set on its way, whether both ended in the same place, and
        the left side of (6.121) over log n, with Theta~ as in (6.6).
    """
    kernel, labels = _kernel(num_train, dim)
    log, width, delta = math.log(num_train), num_train**2, 1 / num_train
    duration, clip_norm = dim * log**2 / width, math.sqrt(width) * log**2
    noise = 2 * clip_norm * math.sqrt(duration) / num_train
    noise *= math.sqrt(8 * math.log(1 / delta)) / epsilon
    features, rate = np.linalg.cholesky(kernel), duration / num_steps
    # A slope is cut where the gradient is longer than the clip norm.
    limits = clip_norm / np.sqrt(np.diag(kernel))
    rng = np.random.default_rng(2)
    free, clipped, flow = (np.zeros((num_runs, num_train)) for _ in range(3))
    left, largest = np.zeros(num_runs, bool), np.zeros(num_runs)
    for _ in range(num_steps):
        kick = noise * math.sqrt(rate) * rng.standard_normal(free.shape)
        slopes = 2 * (free @ features.T - labels)
        cut = np.clip(2 * (clipped @ features.T - labels), -limits, limits)
        left |= np.any(np.abs(slopes) >= limits, axis=1)
        free = free - rate / num_train * slopes @ features + kick
        clipped = clipped - rate / num_train * cut @ features + kick
        flow = flow - rate / num_train * 2 * (flow @ features.T - labels) @ features
        moved = np.abs((free - flow) @ features.T) + np.abs(flow @ features.T - labels)
        np.maximum(largest, moved.max(axis=1), out=largest)
    return left, np.all(free == clipped, axis=1), largest / log


# Source: PF (6.121) to (6.123), (6.6).
def test_at_a_large_epsilon_no_path_is_clipped_and_at_the_largest_allowed_every_path_is():
    bounds = []
    for dim, num_train in SIZES[:2]:
        log = math.log(num_train)
        # Where (4.2) begins, with a constant of one.
        epsilon = dim * log**5 / num_train * math.sqrt(log)
        left, same, bound = _paths(num_train, dim, epsilon)
        assert not left.any()
        assert same.all()
        bounds.append(bound.mean())
        # (4.2) ends below: at the most that it allows paths leave, and the processes part.
        assert 8 * log < epsilon / 8
        left, same, beyond = _paths(num_train, dim, 8 * log)
        assert left.all()
        assert not same.any()
        assert beyond.mean() > 5 * bounds[-1]
    # O(log n): over it the bound falls, while the room, log^2 n / 2 and a constant, grows.
    assert bounds[1] < bounds[0] < 1
    # Where it is left by some paths, the two processes part on those alone.
    left, same, _ = _paths(20, 10, 31.0)
    assert 0.1 < left.mean() < 0.9
    np.testing.assert_array_equal(same, ~left)

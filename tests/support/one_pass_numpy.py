"""AC Algorithm 1 as its box reads, in NumPy: nothing here comes from jaxdp."""

import numpy as np


def algorithm_1(
    rng,
    num_runs,
    *,
    spectrum,
    target,
    label_noise,
    rate,
    clip_scale,
    rho,
    n,
    records,
    batch_size=1,
    scales=((1.0, 1.0),),
    width=np.inf,
):
    """AC Algorithm 1 line by line, with the noise of equation (2), in independent runs.

    Returns R at the records, and of each run the final risk and the shares clipped and capped.
    Inputs are multiplied by the root of a scale, of (value, probability); the slope is Huber's.
    """
    d = len(spectrum)
    values, shares = zip(*scales, strict=True)
    clip_norm = clip_scale * np.sqrt(d)
    eta = np.array([np.nan] + [rate(k / n) / n for k in range(1, n + 1)])
    sigma = np.zeros(n + 1)
    for k in range(1, n):
        sigma[k] = np.sqrt(max(eta[k] ** 2 - eta[k + 1] ** 2, 0)) / rho
    sigma[n] = eta[n] / rho

    def risk(theta):
        return np.sum(spectrum * (theta - target) ** 2, axis=1) / 2

    theta = np.zeros((num_runs, d))
    path = {0: risk(theta)}
    num_clipped = num_capped = 0
    for k in range(1, n + 1):
        descent = np.zeros((num_runs, d))
        for _ in range(batch_size):
            scale = rng.choice(values, size=(num_runs, 1), p=shares)
            x = np.sqrt(scale * spectrum) * rng.normal(size=(num_runs, d))
            y = x @ target + label_noise * rng.normal(size=num_runs)
            g = x * np.clip(np.sum(x * theta, axis=1) - y, -width, width)[:, None]
            norm = np.linalg.norm(g, axis=1)
            g_bar = g * np.minimum(1, clip_norm / norm)[:, None]
            eta_bar = np.minimum(eta[k], 2 / np.sum(x**2, axis=1))
            descent += eta_bar[:, None] * g_bar / batch_size
            num_clipped += norm > clip_norm
            num_capped += eta[k] > 2 / np.sum(x**2, axis=1)
        b = rng.normal(size=(num_runs, d))
        theta = theta - descent
        if k == n:
            path[n] = risk(theta)
        theta = theta + 2 * clip_norm * sigma[k] * b / batch_size
        path.setdefault(k, risk(theta))
    at_records = np.stack([path[j * n // records] for j in range(records + 1)], axis=1)
    samples = n * batch_size
    return at_records, risk(theta), num_clipped / samples, num_capped / samples

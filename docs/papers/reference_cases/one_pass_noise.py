"""The noise of one-pass DP-SGD: sigma_k^2 = (eta_k^2 - eta_(k+1)^2) / rho^2, and the last eta_K."""

import numpy as np


def answers(inputs):
    count, rho = inputs["num_steps"], inputs["rho"]
    time = np.arange(1, count + 1) / count
    rates = inputs["peak"] * (1 - time) ** inputs["power"] / count
    clip_norm = inputs["clip_scale"] * np.sqrt(inputs["dim"])
    sigma = np.sqrt(rates**2 - np.append(rates[1:], 0) ** 2) / rho
    # A record of step k moves it by 2 C eta_k; all noise from there on hides it: the same rho.
    to_come = np.sqrt(np.cumsum(sigma[::-1] ** 2)[::-1])
    used = rates > 0
    return {
        "learning_rate": rates,
        "noise_std": 2 * clip_norm * sigma,
        "rho_of_each_record": rates[used] / to_come[used],
    }

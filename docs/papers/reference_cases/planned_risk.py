"""The least risk of one private pass: isotropic inputs, the best non-increasing learning rate.

Z = R + K eta^2, K = 2 c^2 gamma^2 / rho^2, falls as Z' = F(Z, eta) = -2 eta mu R + eta^2 gamma nu P
and ends as the released risk. Best is the eta of the steepest fall, at most the first rate.
"""

import math

import numpy as np


def answers(inputs):
    gamma, rho, half = inputs["gamma"], inputs["rho"], inputs["label_noise"] ** 2 / 2
    c, first, start = inputs["clip_scale"], inputs["first_rate"], inputs["initial_risk"]

    def fall(state, rate):
        risk = state - 2 * (c * gamma * rate / rho) ** 2
        z = c / math.sqrt(2 * (risk + half))
        mu, tail = math.erf(z / math.sqrt(2)), math.erfc(z / math.sqrt(2))
        nu = z**2 * tail + mu - math.sqrt(2 / math.pi) * z * math.exp(-(z**2) / 2)
        return rate * (rate * gamma * nu * (risk + half) - 2 * mu * risk)

    def steepest(state):
        low, high = 0.0, min(first, rho * math.sqrt(state / 2) / (c * gamma))
        while high - low > 1e-6 * high:  # the golden section: F has one minimum
            a, b = high - 0.618034 * (high - low), low + 0.618034 * (high - low)
            low, high = (low, b) if fall(state, a) < fall(state, b) else (a, high)
        return fall(state, (low + high) / 2)

    state = start + 2 * (c * gamma * first / rho) ** 2
    times = gamma * np.expm1(np.linspace(0, 1, 1601) * math.log1p(1 / gamma))
    for step in np.diff(times):  # Runge and Kutta on a logarithmic clock
        a = steepest(state)
        b = steepest(state + step / 2 * a)
        d = steepest(state + step / 2 * b)
        state += step / 6 * (a + 2 * b + 2 * d + steepest(state + step * d))
    low, high = 1e-12, start
    for _ in range(100):  # without privacy R' = -R^2 / (gamma P)
        floor = math.sqrt(low * high)
        is_late = math.log(start / floor) + half * (1 / floor - 1 / start) > 1 / gamma
        low, high = (floor, high) if is_late else (low, floor)
    return {"final_risk": state, "floor": floor}

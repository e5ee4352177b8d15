"""The excess risk of one-pass DP-SGD, isotropic inputs: one differential equation.

S = R - K (eta(0)^2 - eta(t)^2) with K = 2 c^2 gamma^2 / rho^2 needs no derivative of the rate.
In s with t = 1 - (1 - s)^2 the rate peak (1 - t)^(1/2) = peak (1 - s) is smooth.
"""

import math


def answers(inputs):
    gamma, zeta, c = (
        inputs["dim"] / inputs["num_steps"],
        inputs["label_noise"],
        inputs["clip_scale"],
    )
    peak, noise = inputs["peak"], 2 * (c * gamma / inputs["rho"]) ** 2

    def velocity(s, state):
        rate = peak * (1 - s)
        risk = state + noise * (peak**2 - rate**2)
        power = risk + zeta**2 / 2
        z = c / math.sqrt(2 * power)
        mu, tail = math.erf(z / math.sqrt(2)), math.erfc(z / math.sqrt(2))
        nu = z**2 * tail + mu - math.sqrt(2 / math.pi) * z * math.exp(-(z**2) / 2)
        return 2 * (1 - s) * (-2 * rate * mu * risk + rate**2 * gamma * nu * power)

    state, s, risks = inputs["initial_risk"], 0.0, []
    for time in inputs["time"]:
        step = (1 - math.sqrt(1 - time) - s) / 400
        for _ in range(400):  # Runge and Kutta
            a = velocity(s, state)
            b = velocity(s + step / 2, state + step / 2 * a)
            d = velocity(s + step / 2, state + step / 2 * b)
            state += step / 6 * (a + 2 * b + 2 * d + velocity(s + step, state + step * d))
            s += step
        risks.append(state + noise * peak**2 * (1 - (1 - s) ** 2))
    return {"risk": risks}

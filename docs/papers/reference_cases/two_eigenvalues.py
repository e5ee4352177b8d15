"""The coupled equations for a covariance with two eigenvalues, at a constant learning rate.

D_i is d times half the mean squared error along eigenvalue i, R = sum_i share_i lambda_i D_i.
All private noise comes in the last step: (2 c^2 gamma^2 rate^2 / rho^2) to every D_i.
"""

import math

import numpy as np


def answers(inputs):
    values, shares = np.array(inputs["eigenvalues"]), np.array(inputs["shares"])
    gamma, c = inputs["dim"] / inputs["num_steps"], inputs["clip_scale"]
    rate, half = inputs["learning_rate"], inputs["label_noise"] ** 2 / 2

    def velocity(modes):
        power = shares * values @ modes + half
        z = c / math.sqrt(2 * power)
        mu, tail = math.erf(z / math.sqrt(2)), math.erfc(z / math.sqrt(2))
        nu = z**2 * tail + mu - math.sqrt(2 / math.pi) * z * math.exp(-(z**2) / 2)
        return -2 * rate * mu * values * modes + rate**2 * gamma * nu * power * values

    modes, risks = inputs["dim"] * np.array(inputs["target"]) ** 2 / 2, []
    for _ in inputs["time"]:  # equally spaced
        step = inputs["time"][0] / 400
        for _ in range(400):  # Runge and Kutta
            a = velocity(modes)
            b = velocity(modes + step / 2 * a)
            d = velocity(modes + step / 2 * b)
            modes = modes + step / 6 * (a + 2 * b + 2 * d + velocity(modes + step * d))
        risks.append(shares * values @ modes)
    jump = 2 * (c * gamma * rate / inputs["rho"]) ** 2
    return {"risk": risks, "final_risk": risks[-1] + jump * (shares @ values)}

"""How far the released risk of one run strays from the mean: isotropic inputs, a constant rate.

V = n Var R solves V' = 2 f' V + Q beside R' = f(R), f = -2 eta mu R + eta^2 gamma nu P. With s the
standard normal g clipped at z, mu = E s g and nu = E s^2; Q needs moments up to the fourth.
"""

import numpy as np


def answers(inputs):
    gamma, eta, c = (inputs[name] for name in ("gamma", "learning_rate", "clip_scale"))
    nodes, weights = np.polynomial.legendre.leggauss(60)

    def velocity(state):
        risk, v = state[0], 2 * state[0] + inputs["label_noise"] ** 2
        z = c / np.sqrt(v)
        ends = np.array([0, z, z + 3, z + 6, z + 12])
        half = np.diff(ends)[:, None] / 2
        g = (ends[:-1, None] + half * (nodes + 1)).ravel()
        law = (half * weights).ravel() * np.sqrt(2 / np.pi) * np.exp(-(g**2) / 2)
        s, inside = np.minimum(g, z), law @ (g**2 * (g < z))
        mu, nu, m22, m31, m4 = law @ np.transpose([s * g, s**2, s**2 * g**2, s**3 * g, s**4])
        slope = eta**2 * gamma * inside - 2 * eta * (mu - (mu - inside) * risk / v)
        own = 2 * risk * v * nu + 4 * risk**2 * (m22 - nu - mu**2)
        own -= 2 * eta * gamma * v * risk * (m31 - mu * nu)
        own += (eta * gamma * v) ** 2 / 4 * (m4 - nu**2)
        fall = eta**2 * gamma * nu * v / 2 - 2 * eta * mu * risk
        return np.array([fall, 2 * slope * state[1] + eta**2 * own])

    state, step = np.array([inputs["initial_risk"], 0.0]), 1 / 800
    for _ in range(800):  # Runge and Kutta
        a = velocity(state)
        b = velocity(state + step / 2 * a)
        d = velocity(state + step / 2 * b)
        state = state + step / 6 * (a + 2 * b + 2 * d + velocity(state + step * d))
    jump = 4 * (c * eta / inputs["rho"]) ** 2 * gamma  # of the last step's noise, times n / d
    variance = state[1] + 2 * jump * state[0] + jump**2 * gamma / 2
    return {"final_risk": state[0] + jump * gamma / 2, "n_variance": variance}

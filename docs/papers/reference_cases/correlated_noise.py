"""The risk of one pass with correlated noise, isotropic inputs: R_k = own_k + strength |h_k|^2.

The noise of the steps is C^(-1) Z for a lower triangular C with columns of norm 1; h_k is what is
left in the parameters after step k of the noise of steps 1, ..., k.
"""

import math

import numpy as np


def answers(inputs):
    rates, count = inputs["rates"], len(inputs["rates"])
    ratio, c = inputs["dim"] / inputs["batch_size"], inputs["clip_scale"]
    strength = 2 * (c * ratio / inputs["rho"]) ** 2
    root = [1.0]  # of 1 / (1 - x): 1, 1/2, 3/8, 5/16, ...
    for lag in range(1, count):
        root.append(root[-1] * (2 * lag - 1) / (2 * lag))
    strategy = np.array(
        [[root[i - j] if i >= j else 0 for j in range(count)] for i in range(count)]
    )
    found = {"strategy": strategy / np.linalg.norm(strategy, axis=0)}
    for name, matrix in (("independent", np.eye(count)), ("square_root", found["strategy"])):
        mixing = np.linalg.inv(matrix)
        own, left, risks = inputs["initial_risk"], np.zeros(count), []
        for k in range(count):
            power = own + strength * left @ left + inputs["label_noise"] ** 2 / 2
            z = c / math.sqrt(2 * power)
            mu, tail = math.erf(z / math.sqrt(2)), math.erfc(z / math.sqrt(2))
            nu = z**2 * tail + mu - math.sqrt(2 / math.pi) * z * math.exp(-(z**2) / 2)
            own = (1 - rates[k] * mu) ** 2 * own + rates[k] ** 2 * ratio * nu * power
            left = (1 - rates[k] * mu) * left + rates[k] * mixing[k]
            risks.append(own + strength * left @ left)
        found[name] = risks
    return found

"""How well rows are read off one private step of ReLU random features, for an attack that fits."""

import math


def answers(inputs):
    dim, count, width = (inputs[name] for name in ("dim", "num_samples", "num_features"))
    # Of g: E phi^2 = 1/2, E phi'^2 = 1/2, (E phi')^2 = 1/4.
    square, a, b = 0.5, 0.5, 0.25
    constant = square / (a - b) * (1 - b / (a + (count - 1) * b))
    unknowns = count * (dim - 1) + count
    scale = 2 * math.sqrt(constant * (dim - 1) / (1 - unknowns / width))
    found = {"noise_ratio": [], "error": []}
    for mu in inputs["mu"]:
        ratio, low, high = scale / mu, 0.0, math.pi / 2
        for _ in range(100):  # the angle w with (1 - w / pi) tan w = ratio
            angle = (low + high) / 2
            is_below = (1 - angle / math.pi) * math.tan(angle) < ratio
            low, high = (angle, high) if is_below else (low, angle)
        found["noise_ratio"].append(ratio)
        found["error"].append(2 * math.sin(angle / 2))
    return found

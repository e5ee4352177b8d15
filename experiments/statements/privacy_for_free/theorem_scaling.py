r"""The hyper-parameters under which PF Theorem 1 is proved, with constants of one."""

import math

import jaxdp


def theorem_scaling(
    epsilon: float,
    delta: float,
    *,
    num_train: int,
    dim: int,
    num_features: int | None,
    num_steps: int,
) -> jaxdp.DPGD:
    r"""DP-GD with $\tau = \eta T = d\log^2 n/p$, $C = \sqrt p\log^2 n$ and the noise of (3.6).

    They are scalings of a proof: at every size that fits a computer the powers of log n make the
    noise larger than the signal, and tuned values are far better. The units of infinite width
    (`num_features=None`) see no p. Source: PF (4.3).
    """
    width, square = 1 if num_features is None else num_features, math.log(num_train) ** 2
    return jaxdp.DPGD.calibrated(
        epsilon,
        delta,
        learning_rate=dim * square / (width * num_steps),
        clip_norm=math.sqrt(width) * square,
        num_steps=num_steps,
        calibration=jaxdp.algorithms.PublishedCalibration(),
    )

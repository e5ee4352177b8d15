"""The one exception of the toolkit that is not Python's own."""


class NotCoveredError(Exception):
    """A theory or simulator was asked about a problem and algorithm that it does not cover.

    Raised before any work. The message names the theory or simulator, the assumption that fails,
    and what to use instead.

    Example:
        >>> import jax, jaxdp
        >>> stream = jaxdp.LinearRegression.isotropic(100, label_noise=0.3)
        >>> algorithm = jaxdp.OnePassDPSGD(jaxdp.Constant(1.0), 1.0, 1.0, 1000)
        >>> try:
        ...     jaxdp.predict(stream, algorithm, theory=jaxdp.GaussianClosure())
        ... except jaxdp.NotCoveredError as error:
        ...     print(str(error).partition(":")[0])
        GaussianClosure
    """

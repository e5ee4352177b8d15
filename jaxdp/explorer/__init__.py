"""A page with sliders that shows predictions, privacy costs, forecasts and sweeps."""

from jaxdp.explorer.files import open_features
from jaxdp.explorer.serving import page, serve

__all__ = ["open_features", "page", "serve"]

"""A page with sliders: what theory predicts, what it costs, what a sweep or a forecast has found.

`jaxdp explore` serves it on this machine; in Jupyter and Colab `page()` shows it. The curves come
from `studies`, which are functions of settings and need no widgets; `views` are the widgets.
"""

from jaxdp.explorer.feature_files import open_features
from jaxdp.explorer.opening import page, serve
from jaxdp.explorer.studies.linear_stream import grouped, spread

__all__ = ["grouped", "open_features", "page", "serve", "spread"]

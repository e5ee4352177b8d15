"""A page with sliders: what theory predicts, what it costs, what a sweep or a forecast has found.

`jaxdp explore` serves it on this machine; in Jupyter and Colab `page()` shows it. The curves come
from `studies`, which are functions of settings and need no widgets; the tabs are Panel's widgets.
"""

from jaxdp.explorer.files import open_features
from jaxdp.explorer.serving import page, serve

__all__ = ["open_features", "page", "serve"]

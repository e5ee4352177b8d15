"""Noise and keys from the operating system, certified in machine arithmetic."""

"""Theories of one-pass DP-SGD on streams: the coupled equations and what bounds them."""

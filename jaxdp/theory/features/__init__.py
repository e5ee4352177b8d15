"""Theories of DP-GD on the features of fixed rows, in the eigenbasis of their kernel."""

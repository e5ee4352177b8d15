"""Plans of one-pass DP-SGD on streams, by the deterministic equivalent."""

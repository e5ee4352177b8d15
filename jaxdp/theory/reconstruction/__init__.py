"""Predicted errors of attacks that reconstruct records, or tell members, from a release."""

"""Figures and tables of private kernel learning."""

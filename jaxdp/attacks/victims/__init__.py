"""Trained models to attack: they make the parameters that an attacker is given."""

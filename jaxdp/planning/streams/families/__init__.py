"""Schedules with free numbers, and the descents that fit them."""

"""Figures of "aggressive clipping" (AC) and what was added to them."""

"""Digests of a sweep's function, by which a store notices that the function has changed.

They cover the function's compiled code, and all values, functions and classes that the code uses.
"""

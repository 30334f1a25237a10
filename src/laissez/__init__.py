"""laissez: a live market for compute.

Rooms, each importing only from those to its left:
`model` (what is said) <- `market` (who holds what, at what rate) <- `demo` (a minute of it, told).
"""

__version__ = "0.1.0"

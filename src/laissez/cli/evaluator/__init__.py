"""Commands of somebody who wants to know beforehand: simulations, figures, deadlines.

They may import what the command line may, and need no service.
"""

"""Commands of an operator: the service itself, its resources, floors, tokens and journal.

They may import what the command line may. `up`, `journal` and `bench` work on this machine; the
others reach the market through the SDK alone.
"""

"""A small cluster with tenants that trade by themselves, and a screen to watch them on.

This is what a newcomer sees first. Everything here is an ordinary client of a running service: the
operator puts up the cluster, each tenant trades with a token of its own, the screen shows what the
operator may see. It knows the model, the client and the topology; it decides nothing in the market.
"""

"""Commands of a tenant: quotes, orders, holdings, bills, and the adapters that trade for it.

They may import what the command line may, and reach the market through the SDK alone.
"""

"""Commands for everybody: logging in, following the stream, completing words.

They may import what the command line may. Tenants, operators and viewers use them alike, so none
of them changes the market.
"""

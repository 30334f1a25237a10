"""The exchange on the network: REST for people and tools, a WebSocket for traders, webhooks.

This room turns bytes into the model's requests and back. It decides nothing about the market and
nothing about who may do what: the exchange does. It may import the model and the exchange.
"""

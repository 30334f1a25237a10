"""An ordeal for the service: it is killed again and again under load, and must lose nothing.

`process` runs the service as a child that can be killed, `trader` is a client that retries what
was not answered, `auditor` compares everything that clients were told with the journal and with
a market of its own, `ordeal` brings them together. The quick tests and `make torture` share it.
"""

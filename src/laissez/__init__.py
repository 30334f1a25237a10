"""laissez: a live market for compute.

A house with rooms, each importing only from the floors below its own:

6  `cli` what people type; `sample` what a newcomer sees first
5  `service` the exchange on the network; `bench` a load for it
   `experiments` many runs, measured
4  `exchange` who may speak, in what order, and that it is not lost
   `runners` adapters and maps act, live; `simulation` they act in time that jumps
3  `adapters` what a tenant's nodes are worth; `inframaps` what an operator knows, as prices
2  `market` who holds what, at what rate; `client` the SDK
1  `performance` how fast work would run; `deadline` policies for work with a deadline
   `topology` clusters as files; `telemetry` numbers from outside
0  `documents` and `amounts` what people write; `model` what is said

`laissez.Client` and `laissez.AsyncClient` are the SDK; they are loaded when first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from laissez.client import AsyncClient as AsyncClient
    from laissez.client import Client as Client

__version__ = "0.3.0"
__all__ = ["AsyncClient", "Client", "__version__"]


def __getattr__(name: str) -> object:
    if name in ("AsyncClient", "Client"):
        from laissez import client  # noqa: PLC0415

        return getattr(client, name)
    raise AttributeError(f"module 'laissez' has no attribute {name!r}")

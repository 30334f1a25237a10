"""laissez: a live market for compute.

Rooms, each importing only from those to its left:
`model` (what is said) <- `market` (who holds what, at what rate) <- `exchange` (in what order, and
that it is not lost) <- `service` (on the network) <- `cli`. Beside them `client` (the SDK) and
`topology` (clusters as files) know only the model; `demo` and `sample` show the market at work,
`bench` measures the service. `deadline` (policies for work with a deadline) stands alone. `amounts`
reads what people write.

`laissez.Client` and `laissez.AsyncClient` are the SDK; they are loaded when first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from laissez.client import AsyncClient as AsyncClient
    from laissez.client import Client as Client

__version__ = "0.2.0"
__all__ = ["AsyncClient", "Client", "__version__"]


def __getattr__(name: str) -> object:
    if name in ("AsyncClient", "Client"):
        from laissez import client  # noqa: PLC0415

        return getattr(client, name)
    raise AttributeError(f"module 'laissez' has no attribute {name!r}")

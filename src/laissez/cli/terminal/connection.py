"""The one way to a service. Tests put their own in its place."""

import os

from laissez.client import Client

CA_VARIABLE = "LAISSEZ_CA_FILE"
# Somebody is waiting in front of a screen.
PATIENCE_S = 3.0


def connect(
    url: str | None = None, token: str | None = None, *, patience_s: float = PATIENCE_S
) -> Client:
    """A client of the given service, or of the one that was logged in to."""
    return Client(url, token, retry_for_s=patience_s, ca_file=os.environ.get(CA_VARIABLE))

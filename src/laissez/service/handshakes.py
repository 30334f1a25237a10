"""What a TLS handshake takes of the loop, with the key that is configured.

It happens inside the event loop's own transport, where nobody can measure it, and with a long key
it takes ten times as long as with a short one. So a few are done in memory when the service starts.
"""

from __future__ import annotations

import ssl
from time import thread_time_ns

TRIES = 3
STEPS_MAX = 10


def handshake_ns(tls: ssl.SSLContext) -> int:
    """The least of a few, since the machine's own moods only ever add."""
    return min(_shake_hands(tls) for _ in range(TRIES))


def _shake_hands(tls: ssl.SSLContext) -> int:
    """How long the server's side of one takes; the client's is not ours to pay for."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server)
    server = tls.wrap_bio(to_server, to_client, server_side=True)
    took_ns = 0
    for _ in range(STEPS_MAX):
        client_is_done = _step(client)
        begun = thread_time_ns()
        server_is_done = _step(server)
        took_ns += thread_time_ns() - begun
        if client_is_done and server_is_done:
            break
    return took_ns


def _step(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLError:  # a key that this client does not like: the server's work is done by then
        return True
    return True

"""A TLS handshake in memory: whether two sides accept each other, as OpenSSL judges it."""

import ssl
from typing import Final

# A handshake has two flights each way; renegotiation is not used.
_MAX_ROUNDS: Final = 8


def handshake_error(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> str:
    """Why the handshake of a client that calls ``host`` fails; empty: it succeeds."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(sides)
    for _ in range(_MAX_ROUNDS):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
            except ssl.SSLError as error:
                return error.reason or str(error)
        if not waiting:
            return ""
    return "the handshake does not end"

"""TLS over loopback with the key pair in `tls/`."""

import ssl
from pathlib import Path
from typing import Final

TLS: Final = Path(__file__).parent / "tls"
# Git keeps no modes: with a umask of 002 a checkout has a key that its group can write.
if (_KEY := TLS / "key.pem").stat().st_mode & 0o022:
    _KEY.chmod(0o600)


def serving_context() -> ssl.SSLContext:
    """For a server on 127.0.0.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    return context


def trusting_context() -> ssl.SSLContext:
    """For a client that trusts that server, and no other."""
    return ssl.create_default_context(cafile=TLS / "certificate.pem")

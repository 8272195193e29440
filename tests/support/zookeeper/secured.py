"""A real ZooKeeper server that knows SASL, digests and client certificates."""

import shutil
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.ports import port_of, reserve_port
from broker_ctl.lab.embedded.server import Extras
from tests.support.zookeeper.ensemble import LoopThread, SharedEnsemble

SASL = b"broker:sasl-secret"
_JAAS = """
Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_broker="sasl-secret"
  user_monitor="monitor-secret";
};
"""


class SecuredServer:
    """One server with a plain port and one for TLS.

    Attributes:
        ensemble: to be used from any loop.
        tls_address: ``host:port`` with TLS, where a client certificate is welcome.
        authority, certificate, key: files; the certificate is for clients and servers.
        subject: ``x509`` identity of the certificate.
    """

    def __init__(self, directory: Path) -> None:
        authority = trustme.CA()
        leaf = authority.issue_cert("127.0.0.1", common_name="broker")
        self.authority = directory / "ca.pem"
        self.certificate, self.key = directory / "client.pem", directory / "client-key.pem"
        authority.cert_pem.write_to_path(str(self.authority))
        self.certificate.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        # Java reads keys in this form only.
        private = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
        self.key.write_bytes(
            private.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        self.key.chmod(0o600)
        self.ensemble: SharedEnsemble
        self.tls_address = ""

    @property
    def plain_address(self) -> str:
        return self.ensemble.connect_string

    def tls(self, *, is_anonymous: bool = False) -> ssl.SSLContext:
        """A context of a client."""
        context = ssl.create_default_context(cafile=str(self.authority))
        if not is_anonymous:
            context.load_cert_chain(self.certificate, self.key)
        return context

    def extras(self, tls_port: int) -> Extras:
        """What the server needs besides."""
        self.tls_address = f"127.0.0.1:{tls_port}"
        provider = "org.apache.zookeeper.server.auth"
        return Extras(
            lines=(
                f"authProvider.sasl={provider}.SASLAuthenticationProvider",
                f"secureClientPort={tls_port}",
                "secureClientPortAddress=127.0.0.1",
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
                "ssl.keyStore.location=./server.pem",
                "ssl.trustStore.location=./authority.pem",
                "ssl.clientAuth=want",
                "ssl.hostnameVerification=false",
            ),
            java_options=("-Djava.security.auth.login.config=./jaas.conf",),
            files={
                "jaas.conf": _JAAS,
                "server.pem": self.key.read_text() + self.certificate.read_text(),
                "authority.pem": self.authority.read_text(),
            },
            has_tls=True,
        )


@contextmanager
def secured_server(directory: Path) -> Iterator[SecuredServer]:
    """Run one below ``directory``, which is removed with it."""
    directory.mkdir(exist_ok=True)
    server = SecuredServer(directory)
    with LoopThread("secured ZooKeeper") as thread, reserve_port() as reserved:
        extras = server.extras(port_of(reserved))
        ensemble = Ensemble.of(directory / "data", heap_mb=256, extras=extras)
        thread.run(ensemble.start())
        try:
            server.ensemble = SharedEnsemble(ensemble, thread)
            yield server
        finally:
            thread.run(ensemble.stop())
            shutil.rmtree(directory)

"""Settings that name a file, and what a daemon says where there is none."""

from typing import Final, NamedTuple

from tests.support.daemon.wired_settings import (
    ATTACHED,
    BY_ADMIN,
    CERTIFICATE,
    CERTIFIED,
)
from tests.support.http.certificates import TLS


class Refused(NamedTuple):
    """A setting that names a file: a missing file ends the start with a message.

    Attributes:
        says: start of the message; the key itself, where this is empty.
    """

    key: str
    beside: tuple[str, ...] = ()
    says: str = ""


REFUSED: Final = (
    Refused("tlsCertificateFilePath", (CERTIFIED[1], "webServicePortTls=8443")),
    Refused("tlsKeyFilePath", (CERTIFIED[0], "webServicePortTls=8443")),
    Refused("brokerClientCertificateFilePath", (f"brokerClientKeyFilePath={TLS / 'key.pem'}",)),
    Refused("brokerClientKeyFilePath", (f"brokerClientCertificateFilePath={CERTIFICATE}",)),
    Refused(
        "zookeeperTlsCertFile",
        (f"zookeeperTlsKeyFile={TLS / 'key.pem'}", "zookeeperTlsEnabled=true"),
    ),
    Refused(
        "zookeeperTlsKeyFile",
        (f"zookeeperTlsCertFile={CERTIFICATE}", "zookeeperTlsEnabled=true"),
    ),
    Refused("kubernetesServiceAccountDirectory", BY_ADMIN),
    Refused("pulsarTlsCertificateFilePath", (*ATTACHED, f"pulsarTlsKeyFilePath={TLS / 'key.pem'}")),
    Refused("pulsarTlsKeyFilePath", (*ATTACHED, f"pulsarTlsCertificateFilePath={CERTIFICATE}")),
)

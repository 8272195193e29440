"""SPIFFE IDs, which certificates have as URIs among their subject alternative names.

Source: *The SPIFFE Identity and Verifiable Identity Document*, section 2, and *X.509-SVID*, section
2 (github.com/spiffe/spiffe, ``standards``).
"""

import re
from ipaddress import IPv6Address
from typing import Final

from broker_ctl.errors import InvalidName

SCHEME: Final = "spiffe://"
_MAX_LENGTH: Final = 2048
_DOMAIN: Final = r"[a-z0-9._-]{1,255}"
_ID: Final = re.compile(rf"spiffe://{_DOMAIN}(/[A-Za-z0-9._-]+)*")
_PARTS: Final = 2
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")


def is_spiffe_id(uri: str) -> bool:
    """Whether a URI is a SPIFFE ID: no port, user, query, percent sign or segment of dots."""
    if len(uri) > _MAX_LENGTH or _ID.fullmatch(uri) is None:
        return False
    return not {".", ".."} & set(uri.removeprefix(SCHEME).split("/")[1:])


def trust_domain_uri(cluster: str) -> str:
    """The SPIFFE ID of a cluster as a trust domain, which its authority has.

    Raises:
        InvalidName: the name of the cluster is not one of a trust domain.
    """
    if re.fullmatch(_DOMAIN, cluster) is None:
        raise InvalidName(
            f"clusterName {cluster!r} cannot be the trust domain of a SPIFFE ID, which has only "
            "lower-case letters, digits, '.', '-' and '_'"
        )
    return f"{SCHEME}{cluster}"


def broker_uri(cluster: str, broker_id: str) -> str:
    """The SPIFFE ID by which a certificate proves the id of a broker, ``host:port``.

    It is ``spiffe://CLUSTER/broker/HOST/PORT``: a segment of the path cannot have a colon. An IPv6
    address is written as its 32 digits, behind a segment ``ipv6``.

    Raises:
        InvalidName: a SPIFFE ID cannot hold the name of the cluster, or the id.
    """
    domain, (host, _, port) = trust_domain_uri(cluster), broker_id.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        try:
            host = f"ipv6/{IPv6Address(host[1:-1]).exploded.replace(':', '')}"
        except ValueError:
            host = ""
    elif _HOST.fullmatch(host) is None:
        host = ""
    uri = f"{domain}/broker/{host}/{port}"
    if not host or _PORT.fullmatch(port) is None or not is_spiffe_id(uri):
        raise InvalidName(f"{broker_id!r} is not the id of a broker, host:port")
    return uri


def broker_id_in(cluster: str, uri: str) -> str:
    """The id of the broker of a cluster that a SPIFFE ID proves; empty: it proves none."""
    head, _, path = uri.partition("/broker/")
    parts = path.split("/")
    try:
        if parts[0] == "ipv6" and len(parts) > _PARTS:
            parts[:2] = [f"[{IPv6Address(int(parts[1], 16))}]"]
        found = ":".join(parts)
        # What is written in another way than `broker_uri` does is not an id.
        is_own = head == f"{SCHEME}{cluster}" and broker_uri(cluster, found) == uri
    except (ValueError, InvalidName):
        return ""
    return found if is_own else ""


def replica_broker_uri(cluster: str, number: int) -> str:
    """The URI by which a certificate proves the number of a broker (``brokerId``)."""
    return f"{SCHEME}{cluster}/replica-broker/{number}"

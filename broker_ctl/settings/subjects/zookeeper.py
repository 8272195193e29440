"""Credentials, TLS and limits of the ZooKeeper client."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from broker_ctl.settings.conditions import HAS_IDENTITY, where
from broker_ctl.settings.schema import Guard, Setting
from broker_ctl.settings.values import InSeconds


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """ZooKeeper client: credentials, TLS, and limits that servers do not report."""

    auth_digest_file: Annotated[
        Path | None,
        Setting(
            "zookeeperAuthDigestFile",
            "File with user:password for ZooKeeper's digest authentication. While it is replaced "
            "the file has the old and the new one, each on a line of its own.",
            guard=Guard.SECRET,
        ),
    ] = None
    sasl_digest_file: Annotated[
        Path | None,
        Setting(
            "zookeeperSaslDigestFile",
            "File with user:password for SASL DIGEST-MD5, with which the daemon authenticates to "
            "the ZooKeeper servers.",
            guard=Guard.SECRET,
        ),
    ] = None
    sets_acl: Annotated[
        bool,
        Setting(
            "zookeeperSetAcl",
            "Whether only the daemon's own ZooKeeper identity (digest, SASL or certificate) may "
            "use the nodes that it creates. false: everybody may, as is needed while some daemons "
            "have no identity yet.",
            used_with=(HAS_IDENTITY,),
        ),
    ] = True
    acl_readers: Annotated[
        str,
        Setting(
            "zookeeperAclReaders",
            "Other identities that may read the nodes, as scheme:id separated by semicolons, such "
            "as sasl:monitor;x509:CN=monitor,O=example.",
            # An id may contain blanks, but not end with one: files and environments lose it.
            matches=(
                r"[a-z0-9]+:[!-:<-~](?:[ -:<-~]*[!-:<-~])?"
                r"(?:;[a-z0-9]+:[!-:<-~](?:[ -:<-~]*[!-:<-~])?)*"
            ),
            allowed="scheme:id;scheme:id",
            used_with=(HAS_IDENTITY, where("zookeeperSetAcl", "true")),
        ),
    ] = ""
    tls_enabled: Annotated[
        bool,
        Setting("zookeeperTlsEnabled", "Whether connections to the ZooKeeper servers use TLS."),
    ] = False
    tls_ca_file: Annotated[
        Path | None,
        Setting(
            "zookeeperTlsCaFile",
            "CA certificates (PEM) for verifying the servers; empty: the system's.",
            used_with=(where("zookeeperTlsEnabled", "true"),),
            guard=Guard.TRUST,
        ),
    ] = None
    tls_cert_file: Annotated[
        Path | None,
        Setting(
            "zookeeperTlsCertFile",
            "Client certificate (PEM) for connections to the servers.",
            used_with=(where("zookeeperTlsEnabled", "true"),),
            guard=Guard.TRUST,
        ),
    ] = None
    tls_key_file: Annotated[
        Path | None,
        Setting(
            "zookeeperTlsKeyFile",
            "Private key (PEM) of zookeeperTlsCertFile.",
            used_with=(where("zookeeperTlsEnabled", "true"),),
            guard=Guard.SECRET,
        ),
    ] = None
    max_requests_in_flight: Annotated[
        int,
        Setting(
            "zookeeperMaxInFlightRequests",
            "Maximum number of unanswered requests to ZooKeeper; further ones wait.",
            at_least=1,
        ),
    ] = 1000
    jute_max_buffer_bytes: Annotated[
        int,
        Setting(
            "zookeeperJuteMaxBufferBytes",
            "The servers' jute.maxbuffer: maximum size of a request and of a reply.",
            at_least=4096,
        ),
    ] = 1_048_575
    tick_time_ms: Annotated[
        int,
        Setting(
            "zookeeperTickTimeMillis",
            "The servers' tickTime, from which the lease is computed. The daemon compares it "
            "at start with the shortest session timeout that the servers grant.",
            at_least=1,
        ),
    ] = 2000
    min_session_timeout_ms: Annotated[
        int,
        Setting(
            "zookeeperMinSessionTimeoutMillis",
            "The servers' minSessionTimeout, if set there; it is compared with the timeout "
            "that they grant. 0: two ticks.",
        ),
    ] = 0

    tick_time_s = InSeconds("tick_time_ms")

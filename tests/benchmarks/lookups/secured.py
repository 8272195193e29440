"""Lookups with everything on that asks who sends them, by turns with a cluster that asks nobody.

Clients show a JSON Web Token with an end, over HTTP in each request; their role may look up by a
grant on the namespace. Brokers sign their commands and their nodes in ZooKeeper with the cluster's
key, and refuse unsigned ones.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from broker_ctl.clock import SystemClock
from broker_ctl.security.cluster_key import new_key_line
from broker_ctl.security.jwt import SigningKey, new_secret_key
from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.lookups.cluster import Cluster, beside
from tests.benchmarks.lookups.steady import Steady, by_turns, median

ADMIN: Final = "admin"
READER: Final = "reader"
CHROOT: Final = "/secured"
_ALGORITHM: Final = "HS256"
# Longer than any run, so that the end of a token is checked and never met.
_VALID_S: Final = 24 * 3600


@dataclass(frozen=True, slots=True)
class Identities:
    """The keys of a cluster, in files, and the tokens of its clients."""

    settings: dict[str, str]
    admin: str
    reader: str

    @classmethod
    def create(cls, directory: Path) -> "Identities":
        """Draw them."""
        secret = new_secret_key(_ALGORITHM)
        cluster_key, token_key = directory / "cluster.key", directory / "token.key"
        for file, data in ((cluster_key, new_key_line().encode()), (token_key, secret)):
            file.touch(mode=0o600)
            file.write_bytes(data)
        key, ends_s = (
            SigningKey.secret(secret, _ALGORITHM),
            SystemClock().wall_ms() // 1000 + _VALID_S,
        )
        settings = {
            "clusterName": "secured",
            "authenticationEnabled": "true",
            "authorizationEnabled": "true",
            "superUserRoles": ADMIN,
            "tokenSecretKey": str(token_key),
            "clusterKeyFile": str(cluster_key),
            "clusterKeyRequired": "true",
            "znodeSignatures": "require",
        }
        return cls(settings, key.sign(ADMIN, ends_s), key.sign(READER, ends_s))

    @property
    def grants(self) -> dict[str, Any]:
        """What a namespace's policies say of its clients."""
        return {"namespace_auth": {READER: ["consume", "produce"]}, "destination_auth": {}}


@asynccontextmanager
async def secured_beside(open_one: Cluster, directory: Path) -> AsyncIterator[Cluster]:
    """A cluster of as many daemons on the same servers, with all of it on."""
    identities = Identities.create(directory)
    async with beside(
        open_one,
        directory,
        CHROOT,
        identities.settings,
        token=identities.admin,
        client_token=identities.reader,
        grants=identities.grants,
    ) as cluster:
        yield cluster


async def measure_secured(open_one: Steady, secured: Steady, rounds: int) -> dict[str, Any]:
    """Both, round by round.

    The ratios are those of what was answered in a second of the server's CPU: they hold on a
    machine that does other work too.
    """
    found: dict[str, Any] = {}
    for name, tasks in (
        ("http", (open_one.http, secured.http)),
        ("binary", (open_one.binary, secured.binary)),
    ):
        sides = [partial(open_one.ours, tasks[0]), partial(secured.ours, tasks[1])]
        found_rounds = await by_turns(sides, rounds)
        rates = [median(each, "rate") for each in found_rounds]
        report_progress(f"{name}: {rates[0]} open, {rates[1]} secured")
        found |= {
            f"{name}_open_s": rates[0],
            f"{name}_secured_s": rates[1],
            f"{name}_secured_ratio": round(rates[1] / rates[0], 3),
            f"{name}_secured_cpu_ratio": round(
                median(found_rounds[1], "per_cpu_s") / median(found_rounds[0], "per_cpu_s"), 3
            ),
            f"{name}_rounds": {"open": found_rounds[0], "secured": found_rounds[1]},
        }
    return found

"""Configurations and files that must not be taken without a word."""

import stat
from typing import Final

from tests.security.attacks.scene import SECRET, Outcome, Scene, secret_file
from tests.support.time.waiting import eventually

_OFF_LOOPBACK: Final = {
    "bindAddress": "0.0.0.0",
    "advertisedAddress": "127.0.0.1",
    "authenticationEnabled": "true",
    "superUserRoles": "admin",
    # Another check of its own.
    "allowOpenMetadataStore": "true",
}


async def restriction_without_effect(scene: Scene) -> Outcome:
    """A key of Pulsar that restricts is accepted, and restricts nothing."""
    return await scene.starts("ignored", {"webServiceTlsCiphers": "TLS_AES_256_GCM_SHA384"})


async def tokens_in_the_clear(scene: Scene) -> Outcome:
    """Read tokens on the network of a daemon that listens there without TLS."""
    return await scene.starts("clear", _OFF_LOOPBACK | {"tokenSecretKeyFile": str(scene.tokens)})


async def replication_port_without_proof(scene: Scene) -> Outcome:
    """Read, write and acknowledge records at a port that asks nobody."""
    own = {
        "tokenSecretKeyFile": str(scene.tokens),
        "allowCleartextCredentials": "true",
        "brokerId": "1",
    }
    return await scene.starts("replication", _OFF_LOOPBACK | own)


async def secrets_that_others_write(scene: Scene) -> Outcome:
    """Add a token to a file that another user of the machine may write."""
    file = secret_file(scene.directory / "writable", f"admin:{SECRET}\n", 0o666)
    own = {
        "authenticationEnabled": "true",
        "superUserRoles": "admin",
        "tokenSecretKeyFile": str(file),
    }
    return await scene.starts("writable", own)


async def secret_of_two_roles(scene: Scene) -> Outcome:
    """Be the role that stands in the last line."""
    file = secret_file(scene.directory / "twice", f"reader:{SECRET}\nadmin:{SECRET}\n")
    own = {
        "authenticationEnabled": "true",
        "superUserRoles": "admin",
        "tokenSecretKeyFile": str(file),
    }
    return await scene.starts("twice", own)


async def history_that_others_read(scene: Scene) -> Outcome:
    """Read what each broker serves from its files of history."""

    async def has_files() -> bool:
        return any(path.is_file() for path in scene.history.rglob("*"))

    await eventually(has_files, what="a segment")
    modes = {
        stat.S_IMODE(path.stat().st_mode) for path in scene.history.rglob("*") if path.is_file()
    }
    return Outcome(any(mode & 0o077 for mode in modes), " ".join(sorted(map(oct, modes))))

"""Hosts on this machine: network namespaces on a bridge, whose packets nftables drops.

All of it is inside a network namespace and a mount namespace that a run enters before it makes
anything: no name, address, rule or route of the machine's own is touched, two runs cannot meet, and
the kernel takes everything away with the last process, however a run ends.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.chaos.cluster.scoped import Scoped
from tests.support.time.waiting import eventually

_TOOLS: Final = ("ip", "mount", "nft", "nsenter", "ss", "unshare")
_ENTERED: Final = "BROKER_CTL_CHAOS_HOSTS"
_NETNS: Final = "/run/netns"
_BRIDGE: Final = "hosts"
_CHECKER: Final = "10.77.0.1"
_LIMIT_S: Final = 10.0
# What was dropped is sent again after twice the pause before it.
_SENT_LIMIT_S: Final = 60.0

# Connections to a port of loopback go to the host that has it, as the checker, which is all hosts'
# friend, is used to; what arrives is for loopback, where a daemon without authentication listens.
_REACH: Final = """
table ip reach {{
    map hosts {{ type inet_service : ipv4_addr . inet_service; }}
    chain out {{
        type nat hook output priority -100; policy accept;
        ip daddr 127.0.0.1 dnat to tcp dport map @hosts
        ip daddr {own} dnat to 127.0.0.1
    }}
    chain in {{
        type nat hook prerouting priority -100; policy accept;
        ip daddr {own} dnat to 127.0.0.1
    }}
    chain back {{
        type nat hook postrouting priority 100; policy accept;
        ip saddr 127.0.0.1 oifname != "lo" masquerade
    }}
}}
"""
_FAULTS: Final = """
table ip faults {
    chain input { type filter hook input priority 0; policy accept; }
}
"""


def missing() -> str | None:
    """Why this machine grants no hosts; None: it does."""
    if os.geteuid() != 0:
        return "hosts are network namespaces, which need root"
    if absent := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"{', '.join(absent)}: no such command"
    # A container may have root and no right to a namespace, or a kernel without nftables.
    asked = ("unshare", "--net", "--mount", "nft", "-f", "-")
    rules = _REACH.format(own=_CHECKER) + _FAULTS
    said = subprocess.run(asked, input=rules, capture_output=True, text=True, check=False)
    return None if said.returncode == 0 else f"no namespaces with nftables: {said.stderr.strip()}"


def enter() -> None:
    """Become the same command inside namespaces of its own, unless this process is there."""
    if os.environ.get(_ENTERED) == "yes":
        return
    command = ["unshare", "--net", "--mount", sys.executable, "-m", "tests.chaos", *sys.argv[1:]]
    os.execvpe(command[0], command, {**os.environ, _ENTERED: "yes"})


class Host:
    """One namespace with one address.

    ``command`` goes before what is to run there.
    """

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.command = (str(shutil.which("nsenter")), f"--net={_NETNS}/{name}")

    async def filter(self, rules: str) -> None:
        """Take rules of nftables."""
        await run(*self.command, "nft", "-f", "-", fed=rules)


class Network(Scoped):
    """The bridge and the hosts on it, by name; the checker is at its own end of the bridge.

    ``on_loopback`` are those whose processes listen on loopback alone.
    """

    def __init__(self, addresses: Mapping[str, str], on_loopback: Collection[str]) -> None:
        super().__init__()
        self.hosts = {name: Host(name, address) for name, address in addresses.items()}
        self._on_loopback = on_loopback

    async def _start(self) -> None:
        # Another phase of the run begins with nothing, too.
        self._scope.push_async_callback(run, "nft", "flush", "ruleset")
        # No machine has it before its first named namespace.
        await run("mkdir", "-p", _NETNS)
        await self._until_end(("mount", "-t", "tmpfs", "none", _NETNS), ("umount", _NETNS))
        await run("ip", "link", "set", "lo", "up")
        bridge = ("ip", "link", "add", _BRIDGE, "type", "bridge")
        await self._until_end(bridge, ("ip", "link", "delete", _BRIDGE))
        await run("ip", "addr", "add", f"{_CHECKER}/24", "dev", _BRIDGE)
        await run("ip", "link", "set", _BRIDGE, "up")
        await self._reach((), _CHECKER)
        for number, host in enumerate(self.hosts.values()):
            port, inside = f"port{number}", ("ip", "-n", host.name)
            await self._until_end(
                ("ip", "netns", "add", host.name), ("ip", "netns", "delete", host.name)
            )
            await run(
                *("ip", "link", "add", port, "type", "veth"),
                *("peer", "name", "eth0", "netns", host.name),
            )
            await run("ip", "link", "set", port, "master", _BRIDGE, "up")
            await run(*inside, "addr", "add", f"{host.address}/24", "dev", "eth0")
            await run(*inside, "link", "set", "eth0", "up")
            await run(*inside, "link", "set", "lo", "up")
            await host.filter(_FAULTS)
            if host.name in self._on_loopback:
                await self._reach(host.command, host.address)

    async def _reach(self, command: Sequence[str], own: str) -> None:
        switch = "/proc/sys/net/ipv4/conf/all/route_localnet"
        await run(*command, "sh", "-c", f"echo 1 > {switch}")
        await run(*command, "nft", "-f", "-", fed=_REACH.format(own=own))

    async def find(self, port: int, host: str, its_port: int) -> None:
        """From here on the checker finds a port of a host at ``port`` of loopback."""
        where = f"{port} : {self.hosts[host].address} . {its_port}"
        await run("nft", "add", "element", "ip", "reach", "hosts", f"{{ {where} }}")

    async def show(self, port: int) -> None:
        """From here on all hosts find ``port`` of the checker's loopback at their own."""
        where = f"{{ {port} : {_CHECKER} . {port} }}"
        for name in self._on_loopback:
            command = self.hosts[name].command
            await run(*command, "nft", "add", "element", "ip", "reach", "hosts", where)

    async def _until_end(self, command: Sequence[str], undo: Sequence[str]) -> None:
        await run(*command)
        self._scope.push_async_callback(run, *undo)

    async def name(self, names: Mapping[str, Sequence[str]], directory: Path) -> None:
        """Give names to addresses, in this order, for all processes of the run."""
        lines = [f"{one} {name}\n" for name, addresses in names.items() for one in addresses]
        file = directory / "names"
        file.write_text("127.0.0.1 localhost\n" + "".join(lines))
        bind = ("mount", "--bind", str(file), "/etc/hosts")
        await self._until_end(bind, ("umount", "/etc/hosts"))

    async def drop(self, senders: Iterable[str], receivers: Iterable[str]) -> None:
        """Drop all packets of those to these, until `heal`; neither end is notified."""
        addresses = ", ".join(self.hosts[name].address for name in senders)
        rule = f"add rule ip faults input ip saddr {{ {addresses} }} drop"
        for name in receivers:
            await self.hosts[name].filter(rule)

    async def part(self, some: Sequence[str], others: Sequence[str]) -> None:
        """Drop in both directions."""
        await self.drop(some, others)
        await self.drop(others, some)

    async def wait_sent(self, host: str, port: int) -> None:
        """Return once a host has nothing more to send to a port, also for dead processes."""
        command = (*self.hosts[host].command, "ss", "-tnH", "dport", "=", f":{port}")

        async def is_sent() -> bool:
            # State, bytes not read, bytes not acknowledged; a FIN is one.
            return all(line.split()[2] == "0" for line in (await run(*command)).splitlines())

        await eventually(is_sent, _SENT_LIMIT_S, f"nothing to send from {host}")

    async def heal(self) -> None:
        """Drop nothing. Streams go on where they stood, if both ends are still there."""
        for host in self.hosts.values():
            await host.filter("flush chain ip faults input")


async def run(*command: str, fed: str = "") -> str:
    """A tool of the machine, and what it said.

    Raises:
        OSError: it failed; says how.
    """
    done = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(_LIMIT_S):
        said, _ = await done.communicate(fed.encode())
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {said.decode().strip()}")
    return said.decode()

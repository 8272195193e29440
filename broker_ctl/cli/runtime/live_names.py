"""Completion in a shell of names that are in the cluster: brokers, tenants, namespaces, bundles.

A key press must not hang, and must not ask anything: one bounded attempt, with the address and the
token that the command itself would use; no names where that fails.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import Client

_LIMIT_S: Final = 1.0
# Tenants whose namespaces are asked for, and names that are offered.
_MOST_TENANTS: Final = 20
_MOST_NAMES: Final = 200
_SLASHES_OF_BUNDLE: Final = 2
# A shell takes these characters as they are, and no such word for an option.
_PLAIN: Final = re.compile(r"[A-Za-z0-9._:/=][A-Za-z0-9._:/=-]*")


class LiveName(StringParamType):
    """A text that is completed from the cluster; it is not checked against it."""

    def __init__(self, find: Callable[["Client", str], Awaitable[list[str]]]) -> None:
        self._find = find

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names that begin with what is typed; none if no daemon answers in time."""
        del param
        from broker_ctl.errors import BrokerCtlError

        try:
            names = _ask(ctx, self._find, incomplete)
        except (BrokerCtlError, click.ClickException, TimeoutError, OSError):
            return []
        fitting = sorted(
            name for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)
        )
        return [CompletionItem(name) for name in fitting[:_MOST_NAMES]]


def complete_names(command: click.Command) -> None:
    """Complete the parameters of a command that are names of live things."""
    for parameter in command.params:
        find = _FINDERS.get(parameter.name or "")
        if find is not None and type(parameter.type) is StringParamType:
            parameter.type = LiveName(find)


def _ask(
    ctx: click.Context, find: Callable[["Client", str], Awaitable[list[str]]], typed: str
) -> list[str]:
    import asyncio

    from broker_ctl.cli.runtime.target import target_of

    target = target_of(ctx.params, ctx.meta, timeout_s=_LIMIT_S)

    async def bounded(client: "Client") -> list[str]:
        async with asyncio.timeout(_LIMIT_S):
            return await find(client, typed)

    return target.run(bounded)


async def _brokers(client: "Client", _: str) -> list[str]:
    return list(await client.get("/admin/v2/brokers"))


async def _tenants(client: "Client", _: str) -> list[str]:
    return list(await client.get("/admin/v2/tenants"))


async def _namespaces(client: "Client", typed: str) -> list[str]:
    tenant, slash, _ = typed.partition("/")
    tenants = [tenant] if slash else (await _tenants(client, ""))[:_MOST_TENANTS]
    found: list[str] = []
    for name in tenants:
        if name.startswith(tenant):
            found += await client.get(f"/admin/v2/namespaces/{name}")
    return found


async def _bundles(client: "Client", typed: str) -> list[str]:
    """The bundles of a namespace; before one is typed, namespaces with the slash that follows."""
    if typed.count("/") < _SLASHES_OF_BUNDLE:
        return [f"{name}/" for name in await _namespaces(client, typed)]
    namespace = typed.rpartition("/")[0]
    ring: Mapping[str, Any] = await client.get(f"/admin/v2/namespaces/{namespace}/bundles")
    edges = ring["boundaries"]
    return [f"{namespace}/{low}_{high}" for low, high in pairwise(edges)]


# By the name of the parameter.
_FINDERS: Final[Mapping[str, Callable[["Client", str], Awaitable[list[str]]]]] = {
    "broker": _brokers,
    "destination": _brokers,
    "tenant": _tenants,
    "namespace": _namespaces,
    "bundle": _bundles,
}

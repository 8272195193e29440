"""Drives a rollout from outside: its scope, its progress, restarts by hooks or by Kubernetes."""

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar
from urllib.parse import quote, urlsplit

import click

from broker_ctl.cli.runtime.output import duration_text, echo, print_table, time_text
from broker_ctl.cli.runtime.target import Target
from broker_ctl.core.model.broker import is_broker_id
from broker_ctl.errors import HttpError, RestartFailed
from broker_ctl.tasks import TaskScope, wait_until

if TYPE_CHECKING:
    from broker_ctl.cli.runtime.client import DaemonClient
    from broker_ctl.http_client import HttpClient, HttpReply

# Which brokers a rollout restarts, as options.


PATH: Final = "/control/v1/rollout"

V = TypeVar("V", bound=Callable[..., None])


def scope_options(verb: V) -> V:
    """Add --brokers, --max-unavailable and --canary."""
    options = (
        click.option(
            "--brokers",
            default="",
            metavar="BROKER,...",
            help="Restart these brokers only.  [default: all]",
        ),
        click.option(
            "--max-unavailable",
            type=click.Choice(["1", "zone"]),
            default="1",
            show_default=True,
            help="Restart one broker at a time, or a whole failure domain.",
        ),
        click.option(
            "--canary", default="", metavar="BROKER", help="Restart this broker first, and alone."
        ),
    )
    for option in options:
        verb = option(verb)
    return verb


def scope_query(brokers: str, max_unavailable: str, canary: str) -> dict[str, str]:
    """The scope as the query of a request; what is not given is left out."""
    query = {"brokers": brokers, "canary": canary}
    given = {name: value for name, value in query.items() if value}
    return {**given, "max_unavailable": max_unavailable}


def scope_body(brokers: str, max_unavailable: str, canary: str) -> dict[str, Any]:
    """The scope as fields of the body of a request."""
    names = [name.strip() for name in brokers.split(",") if name.strip()]
    return {"brokers": names, "max_unavailable": max_unavailable, "canary": canary}


# Shows how far a rollout is.


_COLUMNS: Final = ("broker", "state", "since", "waits for")


class RolloutProgress:
    """One line on stderr for each change of a broker; nothing with --output json."""

    def __init__(self, target: Target) -> None:
        self._is_silent = target.is_json
        self._shown: dict[str, tuple[str, str]] = {}

    def show(self, row: Mapping[str, Any]) -> None:
        """Show what has changed since the last call."""
        if self._is_silent:
            return
        left = len(row["brokers"]) - row["restarted"]
        for broker in row["brokers"]:
            seen = broker["state"], broker["detail"]
            if self._shown.get(broker["broker"], ("waiting", "")) == seen:
                continue
            self._shown[broker["broker"]] = seen
            why = f": {broker['detail']}" if broker["detail"] else ""
            eta = f"{left} to go, ETA {duration_text(row['eta_s'])}"
            echo(f"{broker['broker']} {broker['state']}{why}  ({eta})", err=True)


def print_rollout(row: Mapping[str, Any]) -> None:
    """Print a rollout with its brokers."""
    note = f": {row['note']}" if row["note"] else ""
    echo(
        f"rollout {row['id']} is {row['state']}{note}; {row['restarted']} of "
        f"{len(row['brokers'])} restarted, {row['moves']} moves, at least {row['least_moves']}, "
        f"ETA {duration_text(row['eta_s'])}"
    )
    print_table(
        "",
        _COLUMNS,
        (
            (
                broker["broker"],
                broker["state"],
                time_text(broker["changed_ms"]) if broker["changed_ms"] else "",
                broker["detail"],
            )
            for broker in row["brokers"]
        ),
    )


# How the driver of a rollout restarts one broker.


_KILL_S: Final = 5.0
_MOST_OUTPUT: Final = 300


class RestartHook(Protocol):
    """Restarts a broker that is empty; a second restart of the same one does no harm."""

    async def restart(self, broker_id: str) -> None:
        """Return once the broker was asked to stop and start again.

        Raises:
            RestartFailed: the message says why.
        """
        ...


@dataclass(frozen=True, slots=True)
class CommandHook:
    """Runs a command without a shell.

    Attributes:
        words: of the command; ``{broker}``, ``{host}`` and ``{port}`` stand for the broker's.
        timeout_s: seconds until it is killed.
    """

    words: tuple[str, ...]
    timeout_s: float

    @classmethod
    def parse(cls, text: str, timeout_s: float) -> Self:
        """Read a command line with quotes as a shell would.

        Raises:
            BadParameter: the quotes do not match, or there is no command.
        """
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--restart-command") from error
        if not words:
            raise click.BadParameter("no command", param_hint="--restart-command")
        return cls(words, timeout_s)

    def words_for(self, broker_id: str) -> list[str]:
        """The command that restarts a broker.

        Raises:
            RestartFailed: its id is not ``host:port``, and could be an option of the command.
        """
        if not is_broker_id(broker_id):
            raise RestartFailed(f"{broker_id!r} is not host:port, and becomes no word of a command")
        host, _, port = broker_id.rpartition(":")
        places = {"{broker}": broker_id, "{host}": host, "{port}": port}
        return [_filled(word, places) for word in self.words]

    async def restart(self, broker_id: str) -> None:
        """See `RestartHook.restart`."""
        words = self.words_for(broker_id)
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise RestartFailed(f"{words[0]} cannot be run: {error.strerror}") from error
        try:
            async with asyncio.timeout(self.timeout_s):
                _, errors = await process.communicate()
        except TimeoutError as error:
            raise RestartFailed(f"{words[0]} took more than {self.timeout_s:g} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await asyncio.wait_for(process.wait(), _KILL_S)
        if process.returncode:
            said = errors.decode(errors="replace").strip()[-_MOST_OUTPUT:]
            raise RestartFailed(
                f"{words[0]} ended with exit code {process.returncode}"
                + (f": {said}" if said else "")
            )


def systemd_hook(unit: str, timeout_s: float) -> CommandHook:
    """Restarts a unit of this machine; ``{port}`` may be in its name."""
    return CommandHook(("systemctl", "restart", unit), timeout_s)


def _filled(word: str, places: dict[str, str]) -> str:
    for place, value in places.items():
        word = word.replace(place, value)
    return word


# Restarts brokers that are pods: deletes a pod, whose StatefulSet creates it again.
#
# For StatefulSets with the update strategy OnDelete: what was applied takes effect pod by pod, in
# the order of the rollout. The requests are those of the Kubernetes API reference (v1 Pod: read,
# delete).


# Where the kubelet puts token, CA and namespace of a pod's service account.
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
IN_CLUSTER: Final = "https://kubernetes.default.svc"
_TIMEOUT_S: Final = 10.0
_MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_MESSAGE: Final = 300
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MISSING: Final = 404
_CONFLICT: Final = 409
_REFUSED: Final = 400


@dataclass(frozen=True, slots=True)
class KubernetesHook:
    """Deletes the pod whose name is the first label of the broker's host.

    Attributes:
        stateful_set: which owns the pods; a pod of another owner is never deleted.
        api: URL of the API server.
        credentials: directory with ``token``, ``ca.crt`` and ``namespace``; the token is read for
            each request, since the kubelet replaces it.
        timeout_s: seconds until another pod has to be there.
    """

    stateful_set: str
    api: str
    credentials: Path
    timeout_s: float

    async def restart(self, broker_id: str) -> None:
        """See `RestartHook.restart`: returns once the API shows another pod of that name.

        Raises:
            RestartFailed: the message says why.
        """
        from broker_ctl.daemon.wiring.tls import PemFile, client_context
        from broker_ctl.http_client import HttpClient

        pod = broker_id.rpartition(":")[0].partition(".")[0]
        if not _LABEL.fullmatch(pod):
            raise RestartFailed(f"{pod!r} of {broker_id} is not the name of a pod")
        namespace = self._read("namespace")
        if not _LABEL.fullmatch(namespace):
            raise RestartFailed(f"{namespace[:70]!r} is not the name of a namespace")
        url = f"{self.api.rstrip('/')}/api/v1/namespaces/{namespace}/pods/{pod}"
        authority = PemFile("ca.crt", self.credentials / "ca.crt")
        tls = client_context(authority, None) if url.startswith("https:") else None
        async with HttpClient(
            token=lambda: self._read("token"),
            timeout_s=_TIMEOUT_S,
            max_body_bytes=_MOST_BYTES,
            ssl=tls,
        ) as http:
            try:
                await self._replace(http, url, pod)
            except HttpError as error:
                raise RestartFailed(f"the Kubernetes API does not answer: {error}") from error

    async def _replace(self, http: "HttpClient", url: str, pod: str) -> None:
        found = await http.request("GET", url)
        if found.status == _MISSING:
            raise RestartFailed(f"there is no pod {pod}")
        shown = _checked(found, f"pod {pod} cannot be read")
        before = _uid(shown)
        if not _is_owned(shown, self.stateful_set):
            raise RestartFailed(f"pod {pod} is not one of StatefulSet {self.stateful_set}")
        # Under its uid: a pod that was replaced meanwhile, with the new template, stays.
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": before},
        }
        deleted = await http.request("DELETE", url, json=options)
        if deleted.status not in {_MISSING, _CONFLICT}:
            _checked(deleted, f"pod {pod} cannot be deleted")

        async def is_replaced() -> bool:
            try:
                reply = await http.request("GET", url)
            except HttpError:
                return False
            return reply.status < _REFUSED and _uid(reply.json()) != before

        if not await wait_until(is_replaced, self.timeout_s):
            raise RestartFailed(f"no other pod {pod} within {self.timeout_s:g} s")

    def _read(self, name: str) -> str:
        from broker_ctl.security.guarded_files import read_guarded

        path = self.credentials / name
        try:
            return read_guarded(path).decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise RestartFailed(f"{path} cannot be read: {error}") from error


def _checked(reply: "HttpReply", what: str) -> Any:
    """The body of a reply that is not a refusal.

    Raises:
        RestartFailed: with the message of the API's Status.
    """
    if reply.status < _REFUSED:
        return reply.json()
    try:
        body = reply.json()
    except HttpError:
        body = {}
    message = body.get("message", "") if isinstance(body, Mapping) else ""
    raise RestartFailed(f"{what}: {str(message)[:_MOST_MESSAGE] or 'refused'} ({reply.status})")


def _is_owned(pod: Any, stateful_set: str) -> bool:
    """Whether this StatefulSet is the controller of a pod (ownerReferences of its metadata)."""
    owners = pod["metadata"].get("ownerReferences")
    return isinstance(owners, list) and any(
        isinstance(owner, Mapping)
        and owner.get("controller") is True
        and (owner.get("kind"), owner.get("name")) == ("StatefulSet", stateful_set)
        for owner in owners
    )


def _uid(pod: Any) -> str:
    try:
        uid = pod["metadata"]["uid"]
    except (TypeError, KeyError) as error:
        raise RestartFailed("the Kubernetes API returned no pod") from error
    if not isinstance(uid, str) or not uid:
        raise RestartFailed("the Kubernetes API returned a pod without a uid")
    return uid


# The driver of a rollout: it restarts the brokers that the leader has emptied.
#
# The leader's node says which broker waits for a restart, so a driver may be killed at any time
# and another one continues. The brokers restart one after the other, the one at ``--url`` and the
# leader too: the driver asks whichever of them answers.


_T = TypeVar("_T")

_PERIOD_S: Final = 0.5
# For an election, and for the broker at which the driver had asked to come back.
_PATIENCE_S: Final = 120.0
_READY_TIMEOUT_S: Final = 3.0
# While a restart takes long, the driver shows the leader that it is still there: at the latest
# after this part of the gate timeout, since the leader stops the rollout after all of it.
_ALIVE_S: Final = 10.0
_ALIVE_RATIO: Final = 0.25
_OK: Final = 200
# States in which the driver has nothing more to do.
OVER: Final = frozenset({"done", "aborted", "stopped"})


class Driver:
    """Restarts brokers until the rollout has ended or stopped."""

    def __init__(
        self, target: Target, hook: RestartHook, show: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self._target = target
        self._hook = hook
        self._show = show
        # Where a daemon may answer, the last one that did first.
        self._urls = [target.url]
        self._in_hand: set[str] = set()

    async def run(self) -> Mapping[str, Any]:
        """The rollout once it has ended, or has stopped.

        Raises:
            HttpError: no broker answers for two minutes.
        """
        async with asyncio.TaskGroup() as restarts:
            while True:
                row = await self.status()
                self._show(row)
                if row["state"] in OVER and not self._in_hand:
                    return row
                for broker in row["brokers"]:
                    name = broker["broker"]
                    if self._waits_for_driver(broker) and name not in self._in_hand:
                        self._in_hand.add(name)
                        work = self._take(broker, row["gate_timeout_s"])
                        restarts.create_task(work, name=f"restart {name}")
                await asyncio.sleep(_PERIOD_S)

    async def status(self) -> dict[str, Any]:
        """The rollout, from any broker that answers.

        Raises:
            HttpError: none answers for two minutes.
        """

        async def ask(client: "DaemonClient") -> dict[str, Any]:
            found: dict[str, Any] = await client.get(PATH)
            return found

        row = await self._ask(ask)
        for broker in row["brokers"]:
            url = broker["url"]
            if url and url not in self._urls and _is_trusted(self._target, url):
                self._urls.append(url)
        return row

    @staticmethod
    def _waits_for_driver(broker: Mapping[str, Any]) -> bool:
        state = broker["state"]
        return state in {"empty", "restarting"} or (state == "checking" and not broker["healthy"])

    async def _take(self, broker: Mapping[str, Any], gate_timeout_s: float) -> None:
        name = broker["broker"]
        try:
            if broker["state"] != "checking":
                if not await self._say(name, "restart_began", {"empty", "restarting"}):
                    return
                try:
                    await self._restart(name, min(_ALIVE_S, _ALIVE_RATIO * gate_timeout_s))
                except RestartFailed as error:
                    await self._say(name, "failed", {"restarting", "checking"}, str(error))
                    return
                await self._say(name, "restarted", {"restarting"})
            await self._wait_ready(name)
        finally:
            self._in_hand.discard(name)

    async def _restart(self, name: str, alive_s: float) -> None:
        """Run the hook, and repeat meanwhile that the restart has begun.

        Raises:
            RestartFailed: the message says why.
        """
        async with TaskScope(f"restart {name}") as tasks:
            tasks.start(self._say_alive(name, alive_s), "say alive")
            await self._hook.restart(name)

    async def _say_alive(self, name: str, alive_s: float) -> None:
        while True:
            await asyncio.sleep(alive_s)
            # The hook goes on regardless: perhaps it restarts the leader.
            with suppress(HttpError):
                await self._say(name, "restart_began", {"restarting"})

    async def _wait_ready(self, name: str) -> None:
        """Say that a broker is healthy once it is, as seen from here; its gate has a deadline."""
        while True:
            broker = _broker(await self.status(), name)
            if broker["state"] != "checking" or broker["healthy"]:
                return
            if broker["url"] and await self._is_ready(broker["url"]):
                await self._say(name, "healthy", {"checking"})
                return
            await asyncio.sleep(_PERIOD_S)

    async def _is_ready(self, url: str) -> bool:
        from broker_ctl.http_client import HttpClient

        client = HttpClient(
            token=None, timeout_s=_READY_TIMEOUT_S, max_body_bytes=65536, ssl=self._target.tls
        )
        try:
            reply = await client.request("GET", f"{url}/readyz", timeout_s=_READY_TIMEOUT_S)
        except HttpError:
            return False
        finally:
            await client.close()
        return reply.status == _OK

    async def _say(self, name: str, event: str, states: set[str], detail: str = "") -> bool:
        """Report to the leader; whether it still was to be said, by the state of the broker.

        A lost answer is resolved by reading.
        """
        path = f"{PATH}/brokers/{quote(name, safe=':')}"
        refused: HttpError | None = None
        for _ in range(3):
            broker = _broker(await self.status(), name)
            if broker["state"] not in states:
                return False

            async def put(client: "DaemonClient") -> Any:
                body = {"event": event, "detail": detail}
                return await client.request("PUT", path, json=body)

            try:
                await self._ask(put, patience_s=10.0)
            except HttpError as error:
                refused = error
                continue
            return True
        assert refused is not None
        raise refused

    async def _ask(
        self, ask: "Callable[[DaemonClient], Awaitable[_T]]", patience_s: float = _PATIENCE_S
    ) -> _T:
        """The answer of the first broker that gives one."""
        from broker_ctl.cli.runtime.client import DaemonClient

        loop = asyncio.get_running_loop()
        ends_s = loop.time() + patience_s
        while True:
            for url in list(self._urls):
                target = replace(self._target, url=url)
                trust = target.trust()
                try:
                    async with DaemonClient(url, target.token, target.tls, 10.0, trust) as client:
                        answer = await ask(client)
                except HttpError as error:
                    failed = error
                    continue
                self._urls.remove(url)
                self._urls.insert(0, url)
                return answer
            if loop.time() > ends_s:
                raise failed
            await asyncio.sleep(_PERIOD_S)


def _broker(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    for broker in row["brokers"]:
        if broker["broker"] == name:
            found: Mapping[str, Any] = broker
            return found
    raise HttpError(f"{name} is not part of the rollout any more")


def _is_trusted(target: Target, url: str) -> bool:
    """Whether the token may be sent to a broker that the leader names; see `Client`."""
    from broker_ctl.core.model.broker import WebAddress

    if target.token is None or urlsplit(url).hostname == urlsplit(target.url).hostname:
        return True
    try:
        return target.trust().allows(WebAddress.parse(url))
    except ValueError:
        return False

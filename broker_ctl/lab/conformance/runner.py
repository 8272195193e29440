"""Runs every check against one broker process, one after the other."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.dataplane.webhook import wire
from broker_ctl.errors import DataPlaneUnreachable, HttpError, StartError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.conformance import bundle_checks, call_checks, replica_checks
from broker_ctl.lab.conformance.subject import AuthorityStub, BrokerClient, Unmet

_CALL_TIMEOUT_S: Final = 10.0
_MAX_REPLY_BYTES: Final = 16 << 20
_GRANT_MS: Final = 10_000

_Check = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check; ``expected`` and ``seen`` are empty if it passed."""

    name: str
    is_ok: bool
    expected: str = ""
    seen: str = ""


async def check_broker(
    url: str, secret: str, listen: tuple[str, int], clock: Clock
) -> tuple[CheckResult, ...]:
    """Check a broker process at ``url``, which must pull its authority from ``listen``.

    Loads bundles of the tenant ``broker-ctl-check`` only, and unloads them again; where it keeps
    replicas, makes and deletes those of one topic. Tokens begin at the wall clock's milliseconds
    times 1000, so that a later check is not fenced by this one.

    Raises:
        StartError: another process listens at ``listen``.
        DataPlaneUnreachable: no broker process answers at ``url``.
    """
    async with (
        _client(secret) as http,
        _client(None) as nobody,
        _client(f"not-{secret}") as impostor,
    ):
        subject = BrokerClient(url, http, clock, clock.wall_ms() * 1000)
        daemon = AuthorityStub(*listen, secret, clock)
        try:
            await http.request("GET", url.rstrip("/") + wire.STATE)
        except HttpError as error:
            raise DataPlaneUnreachable(str(error)) from error
        try:
            await daemon.open()
        except OSError as error:
            raise StartError(f"cannot stand in for the daemon: {error}") from error
        try:
            checks = _checks(subject, daemon, (nobody, impostor))
            results = [await _run(name, check, subject, daemon) for name, check in checks]
            return (
                *results,
                *[await _run_replica(*one, subject) for one in await _replica_checks(subject)],
            )
        finally:
            await daemon.close()


def _client(secret: str | None) -> HttpClient:
    return HttpClient(token=secret, timeout_s=_CALL_TIMEOUT_S, max_body_bytes=_MAX_REPLY_BYTES)


def _checks(
    subject: BrokerClient, daemon: AuthorityStub, strangers: tuple[HttpClient, ...]
) -> tuple[tuple[str, _Check], ...]:
    http, bundles, authority = call_checks, bundle_checks, bundle_checks
    calls = call_checks
    return (
        ("state: bundles and authority", partial(http.state, subject)),
        ("instance_id: the same in every reply", partial(http.instance_id, subject)),
        ("unknown path is 404", partial(http.unknown_path, subject)),
        ("malformed body is 400", partial(http.malformed, subject)),
        ("too large a body is 413", partial(http.too_large, subject)),
        ("wrong or no secret is 401", partial(http.secret, subject, strangers)),
        ("load: and again", partial(bundles.load_and_repeat, subject)),
        ("load: smaller token is 409", partial(bundles.load_refuses_old_token, subject)),
        ("load: token covers every overlap", partial(bundles.token_covers_overlap, subject)),
        ("load: replaces what overlaps", partial(bundles.load_replaces_overlap, subject)),
        ("renew: raises the token", partial(bundles.renew, subject)),
        ("renew: not loaded is 404", partial(bundles.renew_needs_loaded, subject)),
        ("split: and again", partial(bundles.split, subject)),
        ("split: refusals", partial(bundles.split_refusals, subject)),
        ("merge: and again", partial(bundles.merge, subject)),
        ("merge: refusals", partial(bundles.merge_refusals, subject)),
        ("unload: confirms, and again", partial(bundles.unload, subject)),
        ("fence: at once, and again", partial(bundles.fence, subject)),
        ("token outlives unload and fence", partial(bundles.token_outlives_unload, subject)),
        ("attach: calls are counted upwards", partial(calls.attach, subject)),
        ("call: a late load is 409", partial(calls.late_load, subject)),
        ("call: a late fence, unload or split is 409", partial(calls.late_end, subject)),
        ("call: elsewhere it is not late", partial(calls.late_elsewhere, subject)),
        ("call: number outlives unload and daemon", partial(calls.late_after_unload, subject)),
        ("call: of the daemon before is 409", partial(calls.late_of_previous_daemon, subject)),
        ("attach: ends the daemon before", partial(calls.late_once_attached, subject)),
        ("attach: a first number ends nobody", partial(calls.late_attachment, subject)),
        ("call: for another instance is 412", partial(calls.other_instance, subject)),
        ("topics: complete names, in the bundle", partial(bundles.topics, subject)),
        ("statistics and usage", partial(bundles.measurements, subject)),
        ("authority: pulled with the secret", partial(authority.pulls, subject, daemon)),
        (
            "authority: counted from the asking",
            partial(authority.counts_from_request, subject, daemon),
        ),
        ("authority: less replaces more", partial(authority.shorter_answer_wins, subject, daemon)),
        ("authority: expires by itself", partial(authority.expires_by_itself, subject, daemon)),
    )


async def _replica_checks(subject: BrokerClient) -> tuple[tuple[str, _Check], ...]:
    """The checks of replicas, if the broker process keeps any."""
    replicas = replica_checks
    try:
        if not await replicas.keeps_replicas(subject):
            return ()
    except (Unmet, HttpError, ValueError):
        return ()  # it answers no request correctly, which the other checks report
    return (
        ("replicas: made and shown, and again", partial(replicas.creates_and_lists, subject)),
        ("replicas: smaller leader epoch", partial(replicas.stale_epoch, subject)),
        ("replicas: another topic of that name", partial(replicas.wrong_topic_id, subject)),
        ("replicas: stop and delete, and again", partial(replicas.stop, subject)),
        ("replicas: a late deletion is 409", partial(replicas.late_deletion, subject)),
        ("replicas: for another instance is 412", partial(replicas.other_instance, subject)),
        ("replicas: answers about the ISR", partial(replicas.isr_answers, subject)),
        ("replicas: ISR proposals by the requested lag time", partial(replicas.lag_time, subject)),
        ("replicas: malformed body is 400", partial(replicas.malformed, subject)),
    )


async def _run_replica(name: str, check: _Check, subject: BrokerClient) -> CheckResult:
    try:
        return await _run_check(name, check)
    finally:
        with suppress(Unmet, HttpError, ValueError):
            await replica_checks.clean_up(subject)


async def _run_check(name: str, check: _Check) -> CheckResult:
    try:
        await check()
    except Unmet as promise:
        return CheckResult(name, is_ok=False, expected=promise.expected, seen=promise.seen)
    except (HttpError, ValueError) as error:
        return CheckResult(name, is_ok=False, expected="a well-formed answer", seen=str(error))
    return CheckResult(name, is_ok=True)


async def _run(
    name: str, check: _Check, subject: BrokerClient, daemon: AuthorityStub
) -> CheckResult:
    daemon.remaining_ms, daemon.delay_s = _GRANT_MS, 0.0

    async def checked() -> None:
        await check()
        await subject.clean_up()

    result = await _run_check(name, checked)
    if not result.is_ok:
        # If the cleanup fails, the next check fails too, and shows the bundles that are left.
        with suppress(Unmet, HttpError, ValueError):
            await subject.clean_up()
    return result

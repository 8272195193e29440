"""Which brokers a rollout restarts, as options."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

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

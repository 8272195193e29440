"""Options of the commands that advise on the size of a cluster by history."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

import click

from broker_ctl.core.planning.size import SizeRules
from broker_ctl.core.rules.balance import BalanceRules

_F = TypeVar("_F", bound=Callable[..., Any])


growth_option: Final = click.option(
    "--growth",
    "growth_percent",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    metavar="PERCENT",
    help="Assume that the load grows by so much.",
)


def size_options(command: _F) -> _F:
    """Growth, failure domains and limit."""
    for option in (
        click.option(
            "--limit",
            "limit_percent",
            type=click.IntRange(1, 100),
            default=85,
            show_default=True,
            metavar="PERCENT",
            help="Usage that no broker should exceed, as loadBalancerHeadroomLimitPercentage.",
        ),
        click.option(
            "--domains",
            type=click.IntRange(0, 1000),
            default=0,
            metavar="COUNT",
            help="Failure domains over which the brokers are spread, one of which may be lost.",
        ),
        growth_option,
    ):
        command = option(command)
    return command


def rules_of(growth_percent: int, domains: int, limit_percent: int) -> SizeRules:
    """The rules by the options."""
    rules = SizeRules.of(BalanceRules())
    return replace(
        rules,
        growth_ratio=growth_percent / 100,
        domains=domains,
        limit_ratio=limit_percent / 100,
    )

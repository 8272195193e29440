"""The templates of the console. Everything that comes from outside is escaped.

Jinja is loaded with the first page: most daemons never show one, and each would start later for it.
"""

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from broker_ctl.console import formats
from broker_ctl.console.assets import assets
from broker_ctl.console.pages.glossary import TERMS
from broker_ctl.core.model.printable import printable

if TYPE_CHECKING:
    from jinja2 import Environment

# Pieces of a template that are rendered in one go: some 0.2 ms.
_PIECES: Final = 100


def render(template: str, **values: Any) -> str:
    """One page, or one part of a page, as HTML."""
    return _templates().get_template(template).render(values)


@cache
def prepare() -> None:
    """Read and compile everything, which takes some 0.2 s: for a thread, before the first page."""
    assets()
    environment = _templates()
    for name in environment.list_templates():
        environment.get_template(name)


async def render_in_steps(template: str, **values: Any) -> str:
    """The same, which lets other tasks run in between."""
    pieces: list[str] = []
    for number, piece in enumerate(_templates().get_template(template).generate(values)):
        pieces.append(piece)
        if number % _PIECES == 0:
            await asyncio.sleep(0)
    return "".join(pieces)


@cache
def _templates() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def visible(value: Any) -> Any:
        """Markup has been through here, piece by piece."""
        return value if isinstance(value, Markup) else printable(str(value))

    environment = Environment(
        loader=PackageLoader("broker_ctl.console"),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "clock_time": formats.clock_time,
        "counted": formats.counted,
        "duration": formats.duration,
        "field_name": formats.field_name,
        "field_value_of": lambda value, name: formats.field_value(name, value),
        "moment": formats.moment,
        "percent": formats.percent,
        "rate": formats.rate,
        "ratio": formats.ratio_text,
        "throughput": formats.throughput,
        "words": formats.words,
    }
    environment.globals |= {"asset": _asset_url, "terms": TERMS}
    return environment


def _asset_url(path: str) -> str:
    return f"/ui/static/{assets()[path].name}"

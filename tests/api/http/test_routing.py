"""Our search for a route finds what aiohttp's own finds."""

import random
import re
from collections.abc import Iterator

from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from yarl import URL

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.api.http.routing import RouteTable
from tests.support.clusters.fake_services import CLUSTER, Broker

METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS")
STEPS = (
    "x",
    "persistent",
    "a%2Fb",
    "a%2fb",
    "a%25b",
    "%C3%BC",
    "%41",
    "bundle",
    "configuration",
    "",
)


def paths_like(pattern: str, rng: random.Random) -> Iterator[str]:
    """Paths that a pattern matches, or nearly."""
    for _ in range(4):
        path = re.sub(r"\{\w+(:[^{}]*(\{[^{}]*\})?[^{}]*)?\}", lambda _: rng.choice(STEPS), pattern)
        yield path
        yield path + rng.choice(("/", "/x", "/bundle", "%2F"))
        yield path.rpartition("/")[0] or "/"


async def test_the_route_table_finds_the_handlers_that_aiohttp_finds(leader: Broker) -> None:
    rng = random.Random(1)
    routes = ApiServer(leader.dependencies, ApiRules(CLUSTER)).routes()
    theirs, ours = web.UrlDispatcher(), RouteTable(routes)
    theirs.add_routes(routes)
    paths = {path for route in routes for path in paths_like(route.path, rng)}
    served = 0
    # A mocked request takes a millisecond to make, and its clone nearly nothing.
    mocked = make_mocked_request("GET", "/")
    for path in sorted(paths | {"/", "/nope", "/lookup", "/x/y/z"}):
        for method in METHODS:
            request = mocked.clone(method=method, rel_url=URL(path))
            wanted = await theirs.resolve(request)
            found = ours.find(method, request.rel_url.path_safe)
            if isinstance(found, web.HTTPException):
                why = wanted.http_exception
                assert why is not None, (method, path)
                assert (found.status, found.headers) == (why.status, why.headers), (method, path)
            else:
                served += 1
                assert dict(found) == dict(wanted), (method, path)
                assert found.handler == wanted.handler, (method, path)
                assert found.route.resource is not None
                assert wanted.route.resource is not None
                assert found.route.resource.canonical == wanted.route.resource.canonical
    assert served > len(routes)

"""``GET /lookup/v2/topic/...``: Pulsar's lookup over HTTP (docs: pulsar-http-lookup)."""

from functools import lru_cache
from typing import Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.api.http.limits.requests import ConcurrencyLimit
from broker_ctl.api.http.redirects import LISTENER_HEADER, PROOF, listener_of, redirect
from broker_ctl.api.http.request_params import flag, topic_in
from broker_ctl.api.http.routing import recalled_by
from broker_ctl.broker.lookup.lookup import Answer, Connect, Lookup, PeerCluster, Redirect
from broker_ctl.codec import encode
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.errors import InvalidName

_TOPIC: Final = "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic:[^/]+}"
_V1_TOPIC: Final = "/lookup/v2/topic/{domain}/{tenant}/{cluster}/{namespace}/{topic:.+}"
# Path of Pulsar's clients for a V1 name.
_V1_DESTINATION: Final = "/lookup/v2/destination/{name:.+}"


class LookupRoutes:
    """Serves the broker that a topic's clients connect to."""

    def __init__(self, lookup: Lookup, bound: ConcurrencyLimit) -> None:
        self._lookup = lookup
        self._bound = bound

    def routes(self) -> list[web.RouteDef]:
        """The routes of this class; the order decides between the last two."""
        return [
            web.get(_TOPIC, self.find),
            web.get(f"{_TOPIC}/bundle", self.bundle),
            web.get(_V1_TOPIC, self.refuse_v1),
            web.get(_V1_DESTINATION, self.refuse_v1),
        ]

    @recalled_by("recall")
    async def find(self, request: web.Request) -> web.Response:
        """200 with the owner's addresses, or 307 to a broker that can find it."""
        topic, authoritative = topic_in(request), flag(request, "authoritative")
        proof = request.query.get(PROOF, "")
        with self._bound.held():
            found = await self._lookup.find(topic, authoritative=authoritative, proof=proof)
        return _response(request, found)

    def recall(self, request: web.Request) -> web.Response | None:
        """As `find`, from memory; None: `find` decides."""
        authoritative = flag(request, "authoritative")
        known = self._lookup.recall(topic_in(request), authoritative=authoritative)
        return None if known is None else _response(request, known)

    async def bundle(self, request: web.Request) -> web.Response:
        """The range of the topic's bundle, as text."""
        topic = topic_in(request)
        with self._bound.held():
            bundle = await self._lookup.bundle_of(topic)
        return responses.text(str(bundle.range))

    async def refuse_v1(self, _: web.Request) -> web.Response:
        """412: V1 topics are not supported."""
        raise InvalidName(
            "V1 topics (tenant/cluster/namespace/topic) are not supported; "
            "a topic's local name must be URL-encoded"
        )


def _response(request: web.Request, answer: Answer) -> web.Response:
    match answer:
        case Connect(urls):
            listener = request.query.get("listenerName") or request.headers.get(LISTENER_HEADER)
            if responses.may_share(request):
                return _lookup_response(urls, listener)
            return responses.encoded_json(_lookup_data(urls, listener))
        case Redirect(urls, is_authoritative, proof):
            return redirect(
                request, urls, is_authoritative=is_authoritative, proof=proof, is_repeated=True
            )
        case PeerCluster(urls):
            return redirect(request, urls)


# One for each broker and listener, and each serves thousands of lookups.
@lru_cache(maxsize=1024)
def _lookup_response(urls: BrokerUrls, listener_name: str | None) -> web.Response:
    return responses.repeated_json(_lookup_data(urls, listener_name))


def _lookup_data(urls: BrokerUrls, listener_name: str | None) -> bytes:
    """Pulsar's LookupData without missing addresses; the last two are for old clients."""
    listener = listener_of(urls, listener_name)
    addresses = {
        "brokerId": urls.broker_id,
        "brokerUrl": listener.native_url,
        "brokerUrlTls": listener.native_url_tls,
        "httpUrl": listener.web_url or urls.web_url,
        "httpUrlTls": listener.web_url_tls or urls.web_url_tls,
        "nativeUrl": listener.native_url,
    }
    return encode({key: url for key, url in addresses.items() if url} | {"brokerUrlSsl": ""})

"""The network: HTTP out to others, and nothing else in the house speaks it.

Modules: `client` (`HttpClient`), `pool` (which request has which connection, and which ones wait),
`connection` (one of them), `response` and `body` (what comes back), `transport` (what a client has to offer), `timeouts`, `errors` (the
library's exceptions become ours), `addresses` (which are public), `urls` (which are fetched, and
where redirects lead), `proxies` and `tls` (what the environment says), and `backend`, the one that
names the HTTP library.
"""

from greenroom.net.addresses import is_public as is_public, public_address as public_address
from greenroom.net.body import ChunkIterator as ChunkIterator
from greenroom.net.client import HttpClient as HttpClient
from greenroom.net.pool import HttpStatistics as HttpStatistics
from greenroom.net.proxies import proxy_for as proxy_for
from greenroom.net.response import HttpResponse as HttpResponse
from greenroom.net.timeouts import Timeouts as Timeouts
from greenroom.net.transport import HttpTransport as HttpTransport
from greenroom.net.urls import (
    checked_url as checked_url,
    port_of as port_of,
    redirect_target as redirect_target,
    same_host as same_host,
)

"""The network: HTTP out to others, and nothing else in the house speaks it.

Modules: `client` (`HttpClient`), `response` and `body` (what comes back), `timeouts`, `errors` (the
library's exceptions become ours), `addresses` (which are public), `proxies` and `tls` (what the
environment says), and `backend`, the one that names the HTTP library.
"""

from greenroom.net.addresses import is_public as is_public
from greenroom.net.addresses import public_address as public_address
from greenroom.net.body import ChunkIterator as ChunkIterator
from greenroom.net.client import HttpClient as HttpClient
from greenroom.net.response import HttpResponse as HttpResponse
from greenroom.net.timeouts import Timeouts as Timeouts

__all__ = [
    "ChunkIterator",
    "HttpClient",
    "HttpResponse",
    "Timeouts",
    "is_public",
    "public_address",
]

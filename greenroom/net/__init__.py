"""The network: the only package that sends HTTP requests.

`client` has the HTTP client and its responses. `pool` decides which request gets which connection,
and which ones wait. `connection` is one connection, with the bodies that it carries. `urls` checks
addresses, redirects and proxies. `backend` wraps the HTTP library, and makes its errors ours.
"""

from greenroom.net.client import (
    HttpClient as HttpClient,
    HttpResponse as HttpResponse,
    HttpTransport as HttpTransport,
)
from greenroom.net.connection import ChunkIterator as ChunkIterator, Timeouts as Timeouts
from greenroom.net.pool import HttpStatistics as HttpStatistics
from greenroom.net.urls import (
    check_url as check_url,
    is_public as is_public,
    is_same_host as is_same_host,
    port_of as port_of,
    proxy_for as proxy_for,
    public_address as public_address,
    redirect_target as redirect_target,
)

"""The network: the only package that sends HTTP requests.

`client` is the HTTP client and its responses, `pool` decides which request has which connection and
which ones wait, `connection` is one of them with the bodies that it carries, `urls` are addresses,
redirects and proxies, and `backend` names the HTTP library, and makes its errors ours.
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
    port_of as port_of,
    proxy_for as proxy_for,
    public_address as public_address,
    redirect_target as redirect_target,
    same_host as same_host,
)

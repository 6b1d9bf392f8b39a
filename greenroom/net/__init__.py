"""The network: the only package that sends HTTP requests.

`client` has the HTTP client and its responses. `pool` decides which request gets which connection,
and which ones wait. `connection` says what a connection does: `direct_connection` is one of our
own, which writes and reads HTTP/1.1 by `http1`; `httpx_connection` one by a library, through a
proxy. `body` hands out what an answer holds, `urls` checks addresses, redirects and proxies, `tls`
says who is trusted, and `errors` what went wrong.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)

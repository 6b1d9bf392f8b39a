"""The network: the only package that sends HTTP requests.

`client` has the HTTP client and its responses. `pool` decides which request gets which connection,
and which ones wait. `connection` is one connection, with the bodies that it carries. `urls` checks
addresses, redirects and proxies. `backend` wraps the HTTP library, and makes its errors ours.
"""

from greenroom.net.client import HttpClient

__all__ = ["HttpClient"]

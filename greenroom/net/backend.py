"""The HTTP library: the only module that imports it, maps its exceptions and sets up its TLS.

To use another library with httpx's interface, change this module.
"""

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import httpx as httpx  # noqa: PLC0414 (the others take it from here)
import trio

from greenroom.core import ConfigurationError, NetworkError
from greenroom.core._internal import NetworkTimeoutError

_TRY_LATER = "check the network and the proxy settings, or try again"
_CUT = "the other side, or something between, cut the connection; try again"

# The first row that matches counts, so a subclass comes before its base.
_TABLE: tuple[tuple[type[Exception], type[NetworkError], str, str], ...] = (
    (httpx.TimeoutException, NetworkTimeoutError, "no answer in time", _TRY_LATER),
    (httpx.ProxyError, NetworkError, "the proxy refused", "check HTTPS_PROXY and HTTP_PROXY"),
    (httpx.ConnectError, NetworkError, "no connection", _TRY_LATER),
    (httpx.UnsupportedProtocol, NetworkError, "no URL that can be fetched", "use http or https"),
    (httpx.InvalidURL, NetworkError, "no URL that can be fetched", "check the URL"),
    (httpx.DecodingError, NetworkError, "the body's compression is broken", "try again"),
    (httpx.LocalProtocolError, NetworkError, "the request is not valid HTTP", "check the headers"),
    (httpx.RemoteProtocolError, NetworkError, "the answer broke off, or is not HTTP", _CUT),
    (httpx.HTTPError, NetworkError, "the connection broke", _CUT),
    (
        trio.ClosedResourceError,
        NetworkError,
        "the client was closed",
        "close it after its requests",
    ),
)

# Causes of a failed connection, where they say more than the row does.
_CAUSES: tuple[tuple[type[BaseException], str, str], ...] = (
    (
        ssl.SSLCertVerificationError,
        "its certificate is not trusted",
        "if your network has an authority of its own, name its file in SSL_CERT_FILE",
    ),
    (ssl.SSLError, "no TLS connection", "does the port speak https?"),
    (socket.gaierror, "the name is not known", "check the spelling of the host, and the network"),
    (ConnectionRefusedError, "the connection was refused", "is the server running on that port?"),
)


@contextmanager
def map_errors(host: str) -> Iterator[None]:
    """Turn the errors of the HTTP library and its sockets in the block into ours."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, trio.ClosedResourceError) as error:
        raise network_error(error, host) from None


def network_error(error: Exception, host: str) -> NetworkError:
    """Return our error for one of the HTTP library's; it names the host, and says what to do.

    The message is ours: what the library says may quote a header, and so a key.
    """
    kind, what, hint = next(row[1:] for row in _TABLE if isinstance(error, row[0]))
    for cause in _causes(error):
        for cause_type, text, advice in _CAUSES:
            if isinstance(cause, cause_type):
                return kind(f"{host}: {text}", hint=advice)
    return kind(f"{host}: {what}", hint=hint)


def total_timeout_error(host: str) -> NetworkTimeoutError:
    """Return the error of an exchange that took longer than all of it may take."""
    return NetworkTimeoutError(
        f"{host}: the exchange was not complete in time",
        phase="total",
        hint="the other side is slow or stuck; try again, or allow more time",
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Walk down what led to an error, into exception groups as well."""
    below = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for cause in (error.__cause__ or error.__context__, *below):
        if cause is not None:
            yield cause
            yield from _causes(cause)


_contexts: dict[tuple[str, str], ssl.SSLContext] = {}
"""One context for each setting of the two variables; a process has one or two."""

_load_lock: trio.lowlevel.RunVar[trio.Lock] = trio.lowlevel.RunVar("greenroom.net.backend")


async def tls_context() -> ssl.SSLContext:
    """Return the process's TLS context, shared by all clients.

    `SSL_CERT_FILE` and `SSL_CERT_DIR` name the trusted authorities, as they do for OpenSSL; by
    default they are those that come with the HTTP library.

    Raises:
        ConfigurationError: the file or folder can't be read, or holds no certificate.
    """
    key = (os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", ""))
    if key not in _contexts:
        async with _lock():  # a hundred first requests would load them a hundred times
            if key not in _contexts:
                _contexts[key] = await trio.to_thread.run_sync(_load, *key)
    return _contexts[key]


def _lock() -> trio.Lock:
    """Return the lock of this run of trio: its tasks can't wait together with those of another."""
    try:
        return _load_lock.get()
    except LookupError:
        lock = trio.Lock()
        _load_lock.set(lock)
        return lock


def _load(file: str, folder: str) -> ssl.SSLContext:
    if not file and not folder:
        return httpx.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=file or None, capath=folder or None)
    except OSError as error:  # an SSLError is one too
        raise ConfigurationError(
            f"the TLS certificates in {file or folder} can't be loaded: {error.strerror or error}",
            hint="set SSL_CERT_FILE to a file of PEM certificates, or unset it",
        ) from error

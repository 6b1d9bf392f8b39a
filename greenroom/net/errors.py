"""What can go wrong in an exchange, in our words: which host, what happened, what to do."""

import socket
import ssl
from collections.abc import Iterator

from greenroom.core import NetworkError
from greenroom.core._internal import NetworkTimeoutError, quantity

TRY_LATER = "check the network and the proxy settings, or try again"
CUT = "the other side, or something between, cut the connection; try again"

# Causes of a failed connection, where they say more than what failed does.
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


def describe_failure(
    error: BaseException,
    host: str,
    what: str,
    hint: str,
    kind: type[NetworkError] = NetworkError,
) -> NetworkError:
    """Return our error for another one: by what has caused it, or else by what failed.

    The message is ours: what a library says may quote a header, and so a key.
    """
    for cause in (error, *_causes(error)):
        for cause_type, text, advice in _CAUSES:
            if isinstance(cause, cause_type):
                return kind(f"{host}: {text}", hint=advice)
    return kind(f"{host}: {what}", hint=hint)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Walk down what led to an error, into exception groups as well."""
    below = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for cause in (error.__cause__ or error.__context__, *below):
        if cause is not None:
            yield cause
            yield from _causes(cause)


def shows_distrust(error: NetworkError) -> bool:
    """Whether the other side's certificate was not trusted."""
    return any(isinstance(each, ssl.SSLCertVerificationError) for each in _causes(error))


def closed_error(host: str) -> NetworkError:
    """Return the error of an exchange whose client was closed."""
    return NetworkError(f"{host}: the client was closed", hint="close it after its requests")


def connect_timeout_error(host: str, seconds: float) -> NetworkTimeoutError:
    """Return the error of a connection that took too long."""
    return NetworkTimeoutError(
        f"{host}: no connection within {quantity(seconds, 'second')}",
        phase="connect",
        hint=TRY_LATER,
    )


def response_timeout_error(host: str, seconds: float) -> NetworkTimeoutError:
    """Return the error of a request that was not taken, or not answered, in time."""
    return NetworkTimeoutError(
        f"{host}: no answer within {quantity(seconds, 'second')}",
        phase="response",
        hint="the other side is slow or stuck; try again",
    )


def read_timeout_error(host: str, seconds: float) -> NetworkTimeoutError:
    """Return the error of a body of which nothing came in time."""
    return NetworkTimeoutError(
        f"{host}: nothing came for {quantity(seconds, 'second')}",
        phase="read",
        hint="the other side stalls; try again",
    )


def total_timeout_error(host: str) -> NetworkTimeoutError:
    """Return the error of an exchange that took longer than all of it may take."""
    return NetworkTimeoutError(
        f"{host}: the exchange was not complete in time",
        phase="total",
        hint="the other side is slow or stuck; try again, or allow more time",
    )

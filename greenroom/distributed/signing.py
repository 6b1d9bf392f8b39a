"""How hosts and programs of a cluster prove to each other that they belong to it.

A request bears a signature by the secret of the cluster: over its method and path, the moment, the
number of the host that it is for, a word that is used once, the name for which it acts, and the
hash of its body. So what somebody has seen on the way counts nowhere else, and not again. Whoever
has the secret may act for any name.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable

import trio

from greenroom.core import utc_now
from greenroom.interop._internal import Admitted, Caller, Request, RequestRefusedError, Role

SCHEME = "Greenroom-HMAC"
"""The scheme of the header `Authorization`."""

HEARTBEAT = 2.0
"""Seconds between two signs of life of a host to who reads a stream."""

OTHER_HOST, TOO_EARLY = 421, 425
"""The statuses of requests that may be signed and sent again, perhaps to another host."""

_LATE = 60  # seconds that two clocks may be apart
_MOST_KEPT = 200_000  # words of requests that could be sent again: some 30 MB
_SIGNED = re.compile(
    rf"{SCHEME} time=([0-9]{{1,12}}), host=([0-9]{{1,19}}), once=([0-9a-f]{{32}}), "
    r"name=([\w.@-]{1,64}), body=([0-9a-f]{64}), mac=([0-9a-f]{64})"
)


def sign(secret: str, host: int, method: str, path: str, body: bytes, name: str) -> str:
    """Return the header `Authorization` of a request to a host, for one use.

    Example:
        >>> sign("secret", 7, "GET", "/api/hosts", b"", "ann").partition(" ")[0]
        'Greenroom-HMAC'
    """
    moment, once = int(utc_now().timestamp()), secrets.token_hex(16)
    digest = hashlib.sha256(body).hexdigest()
    mac = _make_mac(secret, method, path, str(moment), str(host), once, name, digest)
    return (
        f"{SCHEME} time={moment}, host={host}, once={once}, name={name}, body={digest}, mac={mac}"
    )


def admit_signed(
    secret: str, own: Callable[[], int], check: Callable[[Request], None]
) -> Callable[[Request], Admitted]:
    """Return what lets in requests with a signature by this secret that pass a check.

    Args:
        secret: that of the cluster.
        own: returns the number of the host.
        check: raises for a request that is refused for another reason.
    """
    seen = _Seen()

    def admit(request: Request) -> Admitted:
        found = _SIGNED.fullmatch(request.header("authorization"))
        if found is None:
            raise _refuse("a request to a host is signed by the secret of its cluster", "signature")
        moment, host, once, name, digest, mac = found.groups()
        signed = (request.method, _path_of(request), moment, host, once, name, digest)
        if not hmac.compare_digest(mac, _make_mac(secret, *signed)):
            raise _refuse("the signature is by another secret", "secret")
        apart = abs(int(moment) - utc_now().timestamp())
        if apart > _LATE:
            raise _refuse(f"the clocks are {apart:.0f} seconds apart, at most {_LATE}", "clock")
        if int(host) != own():
            raise RequestRefusedError(
                OTHER_HOST,
                "the request is for another host",
                kind="host",
                hint="the directory says where each one is",
            )
        seen.add(bytes.fromhex(once))
        check(request)
        return Admitted(Caller(name, Role.ADMIN, ""), bytes.fromhex(digest))

    return admit


class _Seen:
    """The words of requests that came, for as long as their signatures are good."""

    def __init__(self) -> None:
        self._until: dict[bytes, float] = {}

    def add(self, once: bytes) -> None:
        now = trio.current_time()
        while self._until and next(iter(self._until.values())) < now:
            del self._until[next(iter(self._until))]
        if once in self._until:
            raise RequestRefusedError(
                TOO_EARLY, "this request came before", kind="repeated", hint="sign it again"
            )
        if len(self._until) >= _MOST_KEPT:
            raise RequestRefusedError(
                503, "more requests came than can be told apart", kind="busy", hint="wait a minute"
            )
        self._until[once] = now + 2 * _LATE  # with both clocks as far apart as they may be


def _path_of(request: Request) -> str:
    """Return the path of a request as it was sent, with its query."""
    raw, query = request.scope.get("raw_path"), request.scope.get("query_string", b"")
    path = raw.decode("latin-1") if isinstance(raw, bytes) else "/" + "/".join(request.segments)
    path = path.partition("?")[0]
    return f"{path}?{query.decode('latin-1')}" if isinstance(query, bytes) and query else path


def _make_mac(secret: str, *parts: str) -> str:
    return hmac.new(secret.encode(), "\n".join(parts).encode(), hashlib.sha256).hexdigest()


def _refuse(problem: str, kind: str) -> RequestRefusedError:
    return RequestRefusedError(
        401, problem, kind=kind, hint="give every host and program the same secret, and the time"
    )

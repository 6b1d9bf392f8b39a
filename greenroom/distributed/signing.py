"""How hosts and programs of a cluster prove to each other that they belong to it.

A request bears a signature by the secret of the cluster: over its method and path, the moment, the
name for which it acts, and the hash of its body. Whoever has the secret may act for any name.
"""

import hashlib
import hmac
import re
from collections.abc import Callable

from greenroom.core import utc_now
from greenroom.interop._internal import Admitted, Caller, Request, RequestRefusedError, Role

SCHEME = "Greenroom-HMAC"
"""The scheme of the header `Authorization`."""

HEARTBEAT = 2.0
"""Seconds between two signs of life of a host to who reads a stream."""

_LATE = 60  # seconds that two clocks may be apart
_SIGNED = re.compile(
    rf"{SCHEME} time=([0-9]{{1,12}}), name=([\w.@-]{{1,64}}), body=([0-9a-f]{{64}}), "
    r"mac=([0-9a-f]{64})"
)


def sign(secret: str, method: str, path: str, body: bytes, name: str) -> str:
    """Return the header `Authorization` of a request.

    Example:
        >>> sign("secret", "GET", "/api/hosts", b"", "ann").partition(" ")[0]
        'Greenroom-HMAC'
    """
    moment = int(utc_now().timestamp())
    digest = hashlib.sha256(body).hexdigest()
    mac = _make_mac(secret, method, path, str(moment), name, digest)
    return f"{SCHEME} time={moment}, name={name}, body={digest}, mac={mac}"


def admit_signed(secret: str, check: Callable[[Request], None]) -> Callable[[Request], Admitted]:
    """Return what lets in requests with a signature by this secret that pass a check."""

    def admit(request: Request) -> Admitted:
        found = _SIGNED.fullmatch(request.header("authorization"))
        path = "/" + "/".join(request.segments)
        if found is None:
            raise _refuse("a request to a host is signed by the secret of its cluster", "signature")
        moment, name, digest, mac = found.groups()
        query = request.scope.get("query_string", b"")
        raw = request.scope.get("raw_path")
        path = (raw if isinstance(raw, bytes) else path.encode()).decode("latin-1")
        path = path.partition("?")[0]
        if isinstance(query, bytes) and query:
            path += f"?{query.decode('latin-1')}"
        if not hmac.compare_digest(
            mac, _make_mac(secret, request.method, path, moment, name, digest)
        ):
            raise _refuse("the signature is by another secret", "secret")
        apart = abs(int(moment) - utc_now().timestamp())
        if apart > _LATE:
            raise _refuse(f"the clocks are {apart:.0f} seconds apart, at most {_LATE}", "clock")
        check(request)
        return Admitted(Caller(name, Role.ADMIN, ""), bytes.fromhex(digest))

    return admit


def _make_mac(secret: str, *parts: str) -> str:
    return hmac.new(secret.encode(), "\n".join(parts).encode(), hashlib.sha256).hexdigest()


def _refuse(problem: str, kind: str) -> RequestRefusedError:
    return RequestRefusedError(
        401, problem, kind=kind, hint="give every host and program the same secret, and the time"
    )

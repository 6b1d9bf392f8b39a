"""A switch that keeps real models from being called, for tests that must not cost anything."""

import ipaddress
import os
from collections.abc import Mapping

from greenroom.core import ModelCallForbiddenError
from greenroom.llm.endpoint import Endpoint, host_of

FORBID_VARIABLE = "GREENROOM_FORBID_MODEL_CALLS"
"""The environment variable that forbids real calls, so that programs that a test starts obey as well."""

_OFF = frozenset({"", "0", "false", "no", "off"})


def forbids_calls(env: Mapping[str, str] = os.environ) -> bool:
    """Whether calls of real models are forbidden.

    Example:
        >>> forbids_calls({"GREENROOM_FORBID_MODEL_CALLS": "1"}), forbids_calls({})
        (True, False)
    """
    return env.get(FORBID_VARIABLE, "").strip().lower() not in _OFF


def check_call(endpoint: Endpoint, client: object) -> None:
    """Let a request pass unless it is forbidden: called before anything is sent.

    Servers on this very machine may be asked, and so may a client that replays what was recorded, which
    says so by `is_replay`.

    Raises:
        ModelCallForbiddenError: it would leave this machine, and that is switched off.
    """
    host = host_of(endpoint.url)
    if not forbids_calls() or _is_loopback(host) or getattr(client, "is_replay", False):
        return
    raise ModelCallForbiddenError(
        f"a request would have gone to {endpoint.provider} at {host}, "
        f"and {FORBID_VARIABLE} forbids that",
        provider=endpoint.provider,
        host=host,
        hint="use ScriptedProvider or a cassette of greenroom.testing, or a server on 127.0.0.1",
    )


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback

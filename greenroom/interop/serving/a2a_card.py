"""The card of an agent: what it is, and where it is spoken to; anybody may read it."""

import hashlib
from collections.abc import Mapping, Sequence
from email.utils import formatdate

from greenroom._version import __version__
from greenroom.core._internal import serde
from greenroom.interop.a2a_wire import CARD_PATH, VERSION
from greenroom.interop.serving.a2a_content import INPUT_MODES, OUTPUT_MODES
from greenroom.interop.serving.asgi import Reply, Request

_WELL_KNOWN = tuple(CARD_PATH.split("/"))
_SINCE = formatdate(usegmt=True)  # it does not change while this runs
_MOST_SECONDS = 300  # for which a client may keep a card


def find_card(segments: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the name of the agent whose card is at a path; None if the path is another's.

    The first agent's is at the top of the server, and below `/a2a`; each is below `/a2a/NAME`.
    """
    if tuple(segments[-2:]) != _WELL_KNOWN:
        return None
    match segments[:-2]:
        case () | ("a2a",):
            return names[0]
        case ("a2a", name) if name in names:
            return name
        case _:
            return None


def make_card(
    request: Request, name: str, agent: object, *, is_first: bool, changes: Mapping[str, object]
) -> dict[str, object]:
    """Describe an agent, as it is reached under the name that a request has used."""
    root = str(request.scope.get("root_path", ""))
    scheme, host = str(request.scope.get("scheme", "http")), request.header("host")
    address = f"{scheme}://{host}{root}/a2a{'' if is_first else f'/{name}'}"
    description = str(getattr(agent, "description", "")) or f"The agent {name}."
    return {
        "name": name,
        "description": description,
        "version": __version__,
        "supportedInterfaces": [
            {"url": address, "protocolBinding": "JSONRPC", "protocolVersion": VERSION},
            {"url": f"{address}/v1", "protocolBinding": "HTTP+JSON", "protocolVersion": VERSION},
        ],
        "capabilities": {
            "streaming": True,
            "pushNotifications": False,
            "extendedAgentCard": True,
        },
        "securitySchemes": {"token": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"token": {"list": []}}}],
        "defaultInputModes": INPUT_MODES,
        "defaultOutputModes": OUTPUT_MODES,
        "skills": [{"id": name, "name": name, "description": description, "tags": ["agent"]}],
        **changes,
    }


def card_reply(card: Mapping[str, object]) -> Reply:
    """Make the reply that brings a card, which clients may keep for a while."""
    body = serde.encode(card)
    headers = (
        ("cache-control", f"public, max-age={_MOST_SECONDS}"),
        ("last-modified", _SINCE),
        ("etag", f'"{hashlib.sha256(body).hexdigest()[:32]}"'),
    )
    return Reply(200, body, headers=headers)

"""Headers that authorise one request: signatures, and tokens that expire."""

from collections.abc import Mapping
from dataclasses import replace

import trio

from greenroom.llm.endpoint import Endpoint
from greenroom.llm.model_errors import (
    ModelAuthenticationError,
    ModelConnectTimeoutError,
    ModelError,
)


async def authorize(
    endpoint: Endpoint, method: str, content: bytes | None, seconds: float
) -> Endpoint:
    """Return the endpoint with the headers for one request, which its errors won't show.

    Raises:
        ModelAuthenticationError: `auth` has failed, or has returned something else than headers.
        ModelConnectTimeoutError: it took longer than these seconds.
        ModelError: it has raised one.
    """
    if endpoint.auth is None:
        return endpoint
    given = {name.lower(): value for name, value in endpoint.headers.items()}
    added: object = None
    with trio.move_on_after(seconds) as scope:
        try:
            added = await endpoint.auth(method, endpoint.url, dict(given), content or b"")
        except ModelError as error:
            error.provider = error.provider or endpoint.provider
            raise
        except Exception as error:
            # Its own text may have a part of a key.
            raise _failure(endpoint, f"failed with {type(error).__name__}") from error
    if scope.cancelled_caught:
        raise ModelConnectTimeoutError(
            f"`auth` of {endpoint.provider} did not return within {seconds:g} seconds",
            provider=endpoint.provider,
            hint="check what it waits for, or allow more time with ModelTimeouts(connect=…)",
        )
    if not isinstance(added, Mapping) or not all(
        _is_header(part) for pair in added.items() for part in pair
    ):
        raise _failure(endpoint, "did not return headers", "return a dict of ASCII texts")
    new = {name.lower(): value for name, value in added.items()}
    secrets = [value for name, value in new.items() if value != given.get(name)]
    words = [word for value in secrets for word in value.replace(",", " ").split()]
    return replace(endpoint, headers=given | new, secrets=(*endpoint.secrets, *secrets, *words))


def _is_header(part: object) -> bool:
    return isinstance(part, str) and part.isascii() and part.isprintable()


def _failure(endpoint: Endpoint, what: str, hint: str = "") -> ModelAuthenticationError:
    return ModelAuthenticationError(
        f"`auth` of {endpoint.provider} {what}",
        provider=endpoint.provider,
        hint=hint or "its cause says why",
    )

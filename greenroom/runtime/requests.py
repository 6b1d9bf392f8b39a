"""What a permission request says: drafted by the agent that asks, completed by the runtime.

A request of an agent elsewhere is passed on as it is, so that a person who answers here sees the
machine, the directory and the agents that it is about.
"""

from typing import TypedDict

import trio
from msgspec.structs import replace

from greenroom.core import PermissionRequest
from greenroom.core._internal import (
    PermissionEffects,
    PermissionPart,
    SandboxReport,
    disguises,
    texts_in,
)
from greenroom.runtime.errors import InvalidAnswerError
from greenroom.schemas._internal import InputValidator

_LONG = 100_000  # characters that take some tens of milliseconds to look through


class RequestFields(TypedDict, total=False):
    """The optional fields of a `PermissionRequest` that the asking agent sets."""

    details: str
    diff: str
    input: dict[str, object]
    parts: tuple[PermissionPart, ...]
    reason: str
    remembers: tuple[str, ...]
    prefixes: tuple[str, ...]
    runs_as: str
    unremembered: str
    forbids: tuple[str, ...]
    digest: str
    tool_use_id: str
    sandbox: SandboxReport | None
    effects: PermissionEffects
    claim: str
    options: tuple[str, ...] | None
    credential: str
    may_have_run: bool
    host: str
    fields: dict[str, object] | None


def draft_request(
    tool_name: str, action: str, of: PermissionRequest | None, fields: RequestFields
) -> PermissionRequest:
    """Return the request that an agent wants to make, or passes on, still without an id.

    Raises:
        TypeError: it says neither what is asked about nor what it passes on; or `fields` has one
            that the runtime sets.
        ToolError: its `fields` are not a valid schema.
    """
    # The fields of the runtime are named here, so that passing one of them is an error.
    if of is not None:
        draft = replace(
            of,
            request_id="",
            tool_name=tool_name or of.tool_name,
            action=action or of.action,
            session_id="",
            lineage=of.lineage,
            cwd=of.cwd,
            warnings=of.warnings,
            **fields,
        )
    elif tool_name and action:
        draft = PermissionRequest(
            "", tool_name, action, session_id="", lineage=(), cwd="", warnings=(), **fields
        )
    else:
        raise TypeError("say what is asked about: a tool's name and an action, or of=a request")
    if draft.fields is not None:
        InputValidator(draft.tool_name, draft.fields)
    return draft


async def find_warnings(request: PermissionRequest) -> tuple[str, ...]:
    """Return what may mislead a reader, and what was said of it; look through long texts aside."""
    texts = (request.action, request.details, request.diff, *texts_in(request.input))
    if sum(map(len, texts)) < _LONG:
        found = disguises(*texts)
    else:
        found = await trio.to_thread.run_sync(disguises, *texts)
    return tuple(dict.fromkeys((*request.warnings, *found)))


async def read_fields(
    request: PermissionRequest | None, given: dict[str, object] | None
) -> dict[str, object] | None:
    """Return the input of an allow, once it fits the fields that the request asks for.

    Raises:
        InvalidAnswerError: it does not fit them; the message says where.
    """
    if request is None or request.fields is None:
        return given
    validator = InputValidator(request.tool_name, request.fields)
    value, fault = await validator.check({} if given is None else given)
    if fault is not None:
        lines = fault.partition("\n")[2]
        raise InvalidAnswerError(
            f"the answer's input does not fit what {request.tool_name} asks for:\n{lines}"
        )
    return given if given is None else value

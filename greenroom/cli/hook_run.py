"""Runs one hook: its command in bash, one JSON object in, at most one out.

The command and all that it starts are gone when `run_hook` returns: at its end, at the time-out,
at a cancel, and when this process dies.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal, TypeAlias, cast

import msgspec
import trio

from greenroom.cli.hook_files import Hook
from greenroom.core import ToolError
from greenroom.core._internal import (
    InvalidJSONError,
    clip,
    conceal_secrets,
    describe_error,
    quantity,
    serde,
)
from greenroom.sandbox._internal import ContainedProcess, clean_environment

MAX_OUTPUT = 64 << 10
"""The most bytes that a hook may write to standard output, and to standard error."""

_REFUSED = 2  # the exit code that says no
_DECISIONS = ("allow", "deny", "ask")
_SPECIFIC = "hookSpecificOutput"
_NOTICES = ("suppressOutput", "stopReason", "systemMessage")  # of other programs; none refuses
_FIELDS = (
    "hookEventName",
    "permissionDecision",
    "permissionDecisionReason",
    "additionalContext",
    "updatedInput",
)
_REASON = 1_000  # characters

Decision: TypeAlias = Literal["allow", "deny", "ask", ""]
"""What a hook decides about a call; empty for no opinion."""


class HookAnswer(msgspec.Struct, frozen=True):
    """What one hook has said.

    Attributes:
        hook: the hook.
        decision: what it decides.
        reason: why, for the model.
        context: what the model is told beside.
        changes_input: whether it wants another input, which is not taken.
        failure: why there is no answer; empty if there is one.
    """

    hook: Hook
    decision: Decision = ""
    reason: str = ""
    context: str = ""
    changes_input: bool = False
    failure: str = ""


async def run_hook(hook: Hook, event: Mapping[str, object]) -> HookAnswer:
    """Run a hook if it is still what it was, and return what it says; nothing of it stays."""
    change = await trio.to_thread.run_sync(hook.find_change)
    if change:
        return HookAnswer(hook, failure=f"{hook} did not run: {change}")
    try:
        code, out, err = await _run(hook, serde.dumps(event))
    except _TooMuch as error:
        return HookAnswer(hook, failure=f"{hook} failed: {error}")
    except (ToolError, OSError) as error:
        return HookAnswer(hook, failure=f"{hook} failed: {describe_error(error)}")
    if code is None:
        seconds = quantity(hook.settings.timeout, "second")
        return HookAnswer(hook, failure=f"{hook} did not end within {seconds}")
    if code == _REFUSED:
        return HookAnswer(hook, "deny", _clean(err) or f"{hook} refused it")
    if code:
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        said = f": {text}" if (text := _clean(err)) else ""
        return HookAnswer(hook, failure=f"{hook} failed with {how}{said}")
    try:
        return _read(hook, out)
    except (InvalidJSONError, ValueError) as error:
        return HookAnswer(hook, failure=f"{hook} gave no answer that can be read: {error}")


class _TooMuch(Exception):  # noqa: N818 (it ends a hook, and says why)
    """A hook has written more than it may."""

    def __str__(self) -> str:
        return f"it wrote more than {MAX_OUTPUT >> 10} KB"


async def _run(hook: Hook, event: bytes) -> tuple[int | None, str, str]:
    """Run its command; return its exit code, None at the time-out, and its output."""
    out, err = bytearray(), bytearray()
    process = await ContainedProcess.start(
        ["bash", "--noprofile", "--norc", "-c", hook.settings.command],
        cwd=hook.workspace,
        environment={**clean_environment(os.environ), "GREENROOM_PROJECT": str(hook.workspace)},
        has_pipes=True,
    )
    assert process.input is not None  # it was started with pipes
    assert process.errors is not None
    limit = trio.move_on_after(hook.settings.timeout)
    too_much = False
    try:
        with limit:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_feed, process.input, event)
                nursery.start_soon(_collect, process.output, out)
                nursery.start_soon(_collect, process.errors, err)
                await process.wait()
    except* _TooMuch:
        too_much = True
    finally:
        report = await process.aclose()
    if too_much:
        raise _TooMuch
    if report.code is None and not limit.cancelled_caught:
        raise ToolError("it interfered with the process that waits for it")
    code = None if limit.cancelled_caught else report.code
    return code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


async def _feed(stream: trio.lowlevel.FdStream, data: bytes) -> None:
    with suppress(trio.BrokenResourceError):  # a hook need not read it
        await stream.send_all(data)
    await stream.aclose()


async def _collect(stream: trio.lowlevel.FdStream, into: bytearray) -> None:
    async for data in stream:
        into += data
        if len(into) > MAX_OUTPUT:
            raise _TooMuch


def _clean(text: str) -> str:
    return clip(conceal_secrets(text.strip()), _REASON)


def _read(hook: Hook, out: str) -> HookAnswer:
    """Read what a hook has printed.

    Raises:
        InvalidJSONError: it is not one JSON object.
        ValueError: it is not an answer to the event.
    """
    if not out.strip():
        return HookAnswer(hook)
    answer = _without_null(serde.loads_object(out.strip()))
    found = answer.pop(_SPECIFIC, {})
    if not isinstance(found, dict):
        raise ValueError(f"{_SPECIFIC} is not an object")  # noqa: TRY004 (of its text)
    found = _without_null(found)
    # A refusal in words that are not ours must not pass for no opinion.
    unknown = [
        f"{name!r}"
        for name, value in answer.items()
        if name not in _NOTICES and (name, value) != ("continue", True)
    ]
    unknown += [f"{name!r} in {_SPECIFIC}" for name in found if name not in _FIELDS]
    if unknown:
        raise ValueError(
            f"{unknown[0]} is not part of an answer ({_SPECIFIC}: {', '.join(_FIELDS)})"
        )
    event, decision = found.get("hookEventName"), found.get("permissionDecision", "")
    if event not in (None, hook.settings.event):
        raise ValueError(f"it answers {event!r}")
    if decision not in ("", *_DECISIONS):
        raise ValueError(f"the decision {decision!r} is not one of {', '.join(_DECISIONS)}")
    return HookAnswer(
        hook,
        cast("Decision", decision),
        _clean(str(found.get("permissionDecisionReason") or "")),
        conceal_secrets(str(found.get("additionalContext") or "")),
        "updatedInput" in found,
    )


def _without_null(fields: Mapping[str, object]) -> dict[str, object]:
    """Leave out what says nothing: many libraries write each field that they know."""
    return {name: value for name, value in fields.items() if value is not None}

"""The recorder: what went to models and tools and what came back, as numbered files to look at."""

import os
import re
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from greenroom.core import (
    AgentContext,
    Instrument,
    Message,
    ModelCall,
    ModelRequest,
    ToolResult,
    ToolUseBlock,
)
from greenroom.core._internal import conceal, describe_error, serde
from greenroom.observability.line_files import BackgroundWriter
from greenroom.observability.redactor import Redactor

FOLDER = "debugger"
_MAX_FOLDERS = 64  # whose files are known without a look
_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_NUMBERED = re.compile(r"(\d{6,})_")


class Recorder(Instrument):
    """Writes each request, reply, call and result into a file of its own, in order.

    The files are `debugger/000001_model_request.json`, `…_model_response.json`,
    `…_tool_call_NAME.json` and `…_tool_result_NAME.json`, in the session's folder. Use it as `async
    with Recorder() as recorder`, around the runtime. It holds the conversation by purpose; secrets
    are taken out. A thread writes; what it can't keep up with is dropped, and counted in `dropped`.

    Args:
        folder: where the files of sessions without a folder of their own go; by default nowhere.
        keep: how many files of a session are kept; the oldest go.
        redact: what takes secrets out.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        keep: int = 1_000,
        redact: Redactor | None = None,
    ) -> None:
        self._folder = "" if folder is None else str(folder)
        self._keep = max(keep, 1)
        self._redact = redact or Redactor()
        self._writer = BackgroundWriter("Recorder")
        self._kept: dict[str, deque[tuple[int, str]]] = {}  # used by the thread only

    async def __aenter__(self) -> Self:
        await self._writer.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._writer.__aexit__(kind, error, trace)

    @property
    def dropped(self) -> int:
        """How many files found no room on their way to the thread."""
        return self._writer.dropped

    def before_model_call(self, agent: AgentContext, call: ModelCall) -> None:
        """Write the request."""
        request = {"provider": call.provider, "model": call.model, **_list_fields(call.request)}
        self._put(agent, "model_request", request)

    def after_model_call(
        self,
        agent: AgentContext,
        call: ModelCall,
        reply: Message | None,
        error: BaseException | None,
    ) -> None:
        """Write the reply."""
        self._put(agent, "model_response", {"reply": reply, "error": _describe(error)})

    def before_tool_call(self, agent: AgentContext, call: ToolUseBlock) -> None:
        """Write the call."""
        self._put(agent, f"tool_call_{call.name}", {"call": call})

    def after_tool_call(
        self,
        agent: AgentContext,
        call: ToolUseBlock,
        result: ToolResult | None,
        error: BaseException | None,
    ) -> None:
        """Write the result."""
        found = {"id": call.id, "result": result, "error": _describe(error)}
        self._put(agent, f"tool_result_{call.name}", found)

    def _put(self, agent: AgentContext, what: str, value: Mapping[str, object]) -> None:
        folder = agent.session_folder or self._folder
        if folder:
            # Concealed here: the thread might look when a credential has been replaced.
            hidden = conceal(dict(value), agent)
            self._writer.put(partial(self._write, os.path.join(folder, FOLDER), what, hidden))

    def _write(self, folder: str, what: str, value: Mapping[str, object]) -> None:
        kept = self._kept.get(folder)
        if kept is None:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            if len(self._kept) >= _MAX_FOLDERS:
                self._kept.pop(next(iter(self._kept)))
            kept = self._kept[folder] = deque(_list_files(folder))
        number = (kept[-1][0] if kept else 0) + 1
        name = f"{number:06}_{_NAME.sub('_', self._redact(what))[:80]}.json"
        kept.append((number, name))  # also if the disk is full: the file may be there
        data = msgspec.json.format(serde.encode(self._redact(msgspec.to_builtins(value))), indent=2)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(os.path.join(folder, name), flags, 0o600), "wb") as file:
            file.write(data)
        while len(kept) > self._keep:
            with suppress(FileNotFoundError):  # somebody has looked and removed it
                os.unlink(os.path.join(folder, kept.popleft()[1]))


def _list_files(folder: str) -> list[tuple[int, str]]:
    """List the files that are there, with their numbers, the oldest first."""
    found = ((_NUMBERED.match(name), name) for name in os.listdir(folder))
    return sorted((int(number[1]), name) for number, name in found if number)


def _list_fields(request: ModelRequest) -> dict[str, object]:
    return {
        field: value
        for field in request.__dataclass_fields__
        if (value := getattr(request, field)) not in (None, (), [], "", {})
    }


def _describe(error: BaseException | None) -> str | None:
    return None if error is None else describe_error(error)

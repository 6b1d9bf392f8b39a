"""What an editor shows: updates made of an agent's chunks, or of a stored conversation.

The ids of calls that models give are unique within one reply, and those that an editor gets within
one session, so calls are numbered here.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from greenroom import core
from greenroom.core import (
    ImageBlock,
    Message,
    OutputChunk,
    PermissionRequest,
    TextBlock,
    ThinkingBlock,
    ToolInfo,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.core._internal import clip, exact, legible, new_id, thaw, visible
from greenroom.interop.acp.contents import write_blocks
from greenroom.interop.acp.diffs import read_hunks, write_diff
from greenroom.interop.acp.questions import describe
from greenroom.threads._internal import is_large
from greenroom.tools import ToolRegistry

Update = dict[str, object]

_MAX_TITLE = 300  # characters
_MAX_TAIL = 4_000  # characters of what a running call has printed last
_MAX_TEXT = 100_000  # characters of a result
_KINDS = {
    "read": "read",
    "write": "edit",
    "execute": "execute",
    "network": "fetch",
    "plan": "think",
    "agent": "think",
}
_SEARCHES = ("Glob", "Grep", "WebSearch", "ToolSearch")
_PATHS = ("file_path", "path")
_MISSING = "some of the output is missing here: it came faster than it was read"
_TICKS = re.compile(r"`{3,}")


class _Call:
    """A call that an editor knows of."""

    def __init__(self, id_: str, name: str, input: Mapping[str, object]) -> None:  # noqa: A002
        self.id, self.name, self.input = id_, name, input
        self.diff: str = ""
        self.printed = ""


class UpdateWriter:
    """Makes the updates of one session.

    Args:
        tools: the tools, for their kinds.
        folder: where relative paths begin.
    """

    def __init__(self, tools: ToolRegistry, folder: Path) -> None:
        self._tools, self._folder = tools, folder
        self._name = new_id("u")  # an editor may know calls of an earlier process
        self._calls: dict[tuple[str, str], _Call] = {}
        self._call_count = self._message_count = 0
        self._has_text = False  # of the message now
        self._agents: dict[str, str] = {}

    def write(self, chunks: Sequence[OutputChunk]) -> Iterator[Update]:
        """Write the updates of chunks; pieces of a text that follow each other become one."""
        held: OutputChunk | None = None
        for chunk in chunks:
            match held, chunk:
                case core.TextDelta(text=before), core.TextDelta(text=text):
                    held = core.TextDelta(before + text)
                    continue
                case core.ThinkingDelta(text=before), core.ThinkingDelta(text=text):
                    held = core.ThinkingDelta(before + text)
                    continue
                case _:
                    pass
            if held is not None:
                yield from self._write(held, "")
            is_piece = isinstance(chunk, core.TextDelta | core.ThinkingDelta)
            held = chunk if is_piece else None
            if not is_piece:
                yield from self._write(chunk, "")
        if held is not None:
            yield from self._write(held, "")

    def _write(self, chunk: OutputChunk, source: str) -> Iterator[Update]:
        """Write the updates of a chunk of the agent, or with its session as `source` of another."""
        match chunk:
            case core.SubAgentSpawned():
                self._agents[chunk.session_id] = chunk.name or chunk.agent_type
            case core.SubAgentComplete():
                self._agents.pop(chunk.session_id, None)
                yield from self._end_calls(chunk.session_id)
            case core.SubAgentOutput():
                yield from self._write(chunk.chunk, chunk.session_id)
            case core.ToolStart():
                yield from self._start(source, chunk)
            case core.ToolProgress():
                yield from self._progress(source, chunk)
            case core.ToolEnd():
                yield from self._end(source, chunk)
            case _ if not source:
                yield from self._write_own(chunk)
            case _:
                pass  # what a subagent says is in its result

    def _write_own(self, chunk: OutputChunk) -> Iterator[Update]:
        match chunk:
            case core.TextDelta(text=text):
                self._has_text = True
                yield self._say("agent_message_chunk", text)
            case core.TextComplete(text=text):
                if not self._has_text and text:
                    yield self._say("agent_message_chunk", text)
                self._begin_message()
            case core.ThinkingDelta(text=text):
                yield self._say("agent_thought_chunk", text)
            case core.Custom(text=text) if text:
                yield from self.note(text)
            case core.Lagged():
                yield from self.note(_MISSING)
            case core.Done() | core.Exited():
                self._begin_message()
                for source in {source for source, _ in self._calls}:
                    yield from self._end_calls(source)
            case _:
                pass

    def note(self, text: str) -> Iterator[Update]:
        """Write what is neither the model's nor a tool's, in a message of its own."""
        self._begin_message()
        yield self._say("agent_thought_chunk", f"{visible(text)}\n")
        self._begin_message()

    def _begin_message(self) -> None:
        self._message_count += 1
        self._has_text = False

    def _say(self, kind: str, text: str) -> Update:
        content = {"type": "text", "text": text}
        return {
            "sessionUpdate": kind,
            "messageId": f"{self._name}-m{self._message_count}",
            "content": content,
        }

    def _open(self, source: str, id_: str, name: str, input: Mapping[str, object]) -> _Call:  # noqa: A002
        self._call_count += 1
        call = _Call(f"{self._name}-{self._call_count}", name, input)
        self._calls[source, id_] = call
        return call

    def _start(self, source: str, start: core.ToolStart) -> Iterator[Update]:
        call = self._calls.get((source, start.id))
        if call is not None:  # its question was asked
            yield {
                "sessionUpdate": "tool_call_update",
                "toolCallId": call.id,
                "status": "in_progress",
            }
            return
        call = self._open(source, start.id, start.name, start.input)
        info = start.info or ToolInfo(start.name)
        yield self._describe(call, info, "in_progress", source)

    def ask(self, request: PermissionRequest) -> Iterator[Update]:
        """Write the call that a question is about, unless the editor knows of it."""
        source = request.session_id if len(request.lineage) > 1 else ""
        key = (source, request.tool_use_id)
        if request.tool_use_id and key not in self._calls:
            call = self._open(*key, request.tool_name, request.input)
            info = ToolInfo(request.action, request.details, request.diff)
            yield self._describe(call, info, "pending", source)

    def write_question(self, request: PermissionRequest) -> Update:
        """Write the call of a question with all that a person has to know of it."""
        source = request.session_id if len(request.lineage) > 1 else ""
        call = self._calls.get((source, request.tool_use_id))
        info = ToolInfo(request.action, request.details, request.diff)
        content = write_diff(request.diff, self._path(request.input))
        if not content and request.details:
            content = [write_content(fence(exact(request.details)))]
        if known := describe(request):
            content.append(write_content(known))
        return {
            "toolCallId": call.id if call is not None else f"question-{request.request_id}",
            "title": write_title(info, self._agents.get(source, "")),
            "kind": self._kind(request.tool_name),
            "status": "pending",
            "content": content,
        }

    def _describe(self, call: _Call, info: ToolInfo, status: str, source: str) -> Update:
        call.diff = info.diff
        update: Update = {
            "sessionUpdate": "tool_call",
            "toolCallId": call.id,
            "title": write_title(info, self._agents.get(source, "")),
            "kind": self._kind(call.name),
            "status": status,
        }
        if not is_large(call.input):
            update["rawInput"] = thaw(call.input)
        if places := self._find_places(call):
            update["locations"] = places
        if content := self.write_info(call.input, info):
            update["content"] = content
        return update

    def _kind(self, name: str) -> str:
        if name in _SEARCHES:
            return "search"
        tool = self._tools.get(name)
        return _KINDS.get(tool.category, "other") if tool is not None else "other"

    def _path(self, input: Mapping[str, object]) -> str:  # noqa: A002
        """Return the absolute path of the file that a call names, or an empty text."""
        named = next((input[key] for key in _PATHS if isinstance(input.get(key), str)), "")
        return os.path.normpath(self._folder / os.path.expanduser(str(named))) if named else ""

    def _find_places(self, call: _Call) -> list[dict[str, object]]:
        path = self._path(call.input)
        if not path:
            return []
        lines = [hunk.line for hunk in read_hunks(call.diff)]
        first = call.input.get("offset")
        if isinstance(first, int) and first > 0:
            lines = [first]
        return [{"path": path, "line": line} for line in lines[:20]] or [{"path": path}]

    def write_info(self, input: Mapping[str, object], info: ToolInfo) -> list[dict[str, object]]:  # noqa: A002
        """Write what a call would do: the change of a file, or words that a title can't hold."""
        if info.diff and (found := write_diff(info.diff, self._path(input))):
            return found
        details = legible(info.details).strip()
        return (
            [write_content(fence(details))] if "\n" in details or len(details) > _MAX_TITLE else []
        )

    def _progress(self, source: str, progress: core.ToolProgress) -> Iterator[Update]:
        call = self._calls.get((source, progress.id))
        if call is not None:
            call.printed = (call.printed + progress.output)[-_MAX_TAIL:]
            yield {
                "sessionUpdate": "tool_call_update",
                "toolCallId": call.id,
                "content": [write_content(fence(legible(call.printed)))],
            }

    def _end(self, source: str, end: core.ToolEnd) -> Iterator[Update]:
        call = self._calls.pop((source, end.id), None)
        if call is None:
            return
        yield from self._write_end(call, end.result)

    def _write_end(self, call: _Call, result: core.ToolResult) -> Iterator[Update]:
        diff = result.metadata.get("diff")
        update: Update = {
            "sessionUpdate": "tool_call_update",
            "toolCallId": call.id,
            "status": "failed" if result.is_error else "completed",
        }
        if isinstance(diff, str) and not result.is_error:
            call.diff = diff
            update["locations"] = self._find_places(call)
        content = [] if result.is_error else write_diff(call.diff, self._path(call.input))
        update["content"] = content or list(_write_result(result.content))
        yield update
        todos = call.input.get("todos")
        if call.name == "Todo" and isinstance(todos, Sequence) and not result.is_error:
            yield write_plan(todos)

    def _end_calls(self, source: str) -> Iterator[Update]:
        """Write the end of calls whose end was missed."""
        for key in [each for each in self._calls if each[0] == source]:
            id_ = self._calls.pop(key).id
            yield {"sessionUpdate": "tool_call_update", "toolCallId": id_, "status": "failed"}

    def replay(self, history: Sequence[Message]) -> Iterator[Update]:
        """Write a stored conversation."""
        for message in history:
            self._begin_message()
            for block in message.content:
                yield from self._replay_block(block, message.role)
        yield from self._end_calls("")

    def _replay_block(self, block: core.ContentBlock, role: str) -> Iterator[Update]:
        kind = "user_message_chunk" if role == "user" else "agent_message_chunk"
        match block:
            case ThinkingBlock(thinking=text):
                if text:
                    yield self._say("agent_thought_chunk", text)
            case ToolUseBlock():
                call = self._open("", block.id, block.name, block.input)
                tool = self._tools.get(block.name)
                try:
                    info = tool.info(thaw(block.input)) if tool is not None else None
                except Exception:  # noqa: BLE001  (an input that the tool never accepted)
                    info = None
                yield self._describe(call, info or ToolInfo(block.name), "pending", "")
            case ToolResultBlock():
                call_of = self._calls.pop(("", block.tool_use_id), None)
                if call_of is not None:
                    status = core.ToolStatus.ERROR if block.is_error else core.ToolStatus.SUCCESS
                    yield from self._write_end(call_of, core.ToolResult(block.content, status))
            case _:
                for content in write_blocks([block]):
                    yield {
                        "sessionUpdate": kind,
                        "messageId": f"{self._name}-m{self._message_count}",
                        "content": content,
                    }


def write_title(info: ToolInfo, agent: str = "") -> str:
    """Write what a call does in one line; a subagent is named before it."""
    first = visible(info.details).strip().partition("\n")[0]
    words = ": ".join(filter(None, (visible(agent), visible(info.action), first)))
    return clip(" ".join(words.split()), _MAX_TITLE) or "a call"


def write_plan(todos: Sequence[object]) -> Update:
    """Write a list of things to do as a plan."""
    entries = [
        {
            "content": str(each.get("content", "")),
            "priority": "medium",
            "status": str(each.get("status", "pending")),
        }
        for each in todos
        if isinstance(each, Mapping)
    ]
    return {"sessionUpdate": "plan", "entries": entries}


def _write_result(content: Sequence[core.ContentBlock]) -> Iterator[dict[str, object]]:
    for block in content:
        if isinstance(block, TextBlock):
            text = legible(clip(block.text, _MAX_TEXT)).strip("\n")
            if text:
                yield write_content(fence(text))
        elif isinstance(block, ImageBlock | core.DocumentBlock):
            for each in write_blocks([block]):
                yield {"type": "content", "content": each}


def write_content(text: str) -> dict[str, object]:
    """Write a text as a part of a call's content."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def fence(text: str) -> str:
    """Fence a text off, since an editor takes it as Markdown, and it is somebody else's.

    Example:
        >>> print(fence("a"))
        ```
        a
        ```
    """
    ticks = max(map(len, _TICKS.findall(text)), default=2) + 1
    return f"{'`' * ticks}\n{text}\n{'`' * ticks}"

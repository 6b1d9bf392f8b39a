"""The audit: who let which call run, on disk before it runs, in a file that shows each change.

Each line holds the hash of the one before, so a line that was changed, removed, added or moved does
not fit any more. What was cut off at the end fits: to find that, keep the `head`, the last hash,
elsewhere. With a key, nobody who lacks it can write lines that fit.
"""

import errno
import fcntl
import hashlib
import hmac
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import trio

from greenroom.core import (
    AgentContext,
    Answer,
    Done,
    GreenroomError,
    Instrument,
    PermissionRequest,
    SubAgentResult,
    ToolResult,
    ToolRun,
    ToolUseBlock,
    UserInput,
    utc_now,
)
from greenroom.core._internal import conceal, serde, timestamp
from greenroom.observability.redactor import Redactor

MAX_WAITING = 10_000  # lines that wait for the disk; more are counted, and their calls refused
SOON = 1_000  # lines that wait for a call; more are written before it
logger = logging.getLogger("greenroom.observability")

_SEAL = re.compile(rb'(?P<body>\{.*),"hash":"(?P<hash>[0-9a-f]{64})"\}\n')
_FIRST = "0" * 64


class AuditError(GreenroomError):
    """The audit can't be written or read: its file is missing, a link, or another process's."""

    remedy = "correct the path, or its permissions; give each process an audit of its own"


@dataclass(frozen=True)
class AuditReport:
    """What a check of an audit has found.

    Attributes:
        ok: whether every line fits, none is torn, and the head that was given is among them.
        lines: how many lines fit.
        head: the hash of the last of them; keep it elsewhere to notice later that lines were cut
            off.
        torn: whether the last line is not complete, as after a crash or a loss of power.
        fault: what does not fit, and in which line; empty if all does.
    """

    ok: bool
    lines: int
    head: str
    torn: bool = False
    fault: str = ""


class Audit(Instrument):
    """Writes who let which call run, and refuses the calls that it can't write down.

    It is a gate: pass it as `AgentRuntime(gates=[audit])`, inside of `async with Audit(path) as
    audit`. A call of a tool runs only once its line "ran" is on disk, synced. Other lines say what
    was asked of a model's calls, what persons answered, and how calls ended; they are written with
    the next call, or a thousand at a time. Inputs are there as hashes, so that no word of them is.
    Lines for which the disk has no room wait; where there are too many, "dropped" says how many.

    Args:
        path: the file; it is made for its user alone, and no link is followed.
        key: signs each line (HMAC-SHA256); without one anybody can write a file that fits.
        redact: what takes secrets out of the names of rules and tools.

    Raises:
        AuditError: the file can't be opened, or another process writes to it.

    Example:
        ```python
        async with Audit("audit.jsonl", key=key) as audit:
            async with AgentRuntime(store, gates=[audit]) as runtime:
                ...
        print(verify_audit("audit.jsonl", key=key).ok)
        ```
    """

    timeout = 30

    def __init__(
        self, path: str | Path, *, key: bytes | None = None, redact: Redactor | None = None
    ) -> None:
        self._path, self._key = str(path), key
        self._redact = redact or Redactor()
        self._waiting: list[dict[str, object]] = []
        self._writing: trio.Event | None = None  # until lines are written that no call awaits
        self._write_at = SOON
        self._dropped = 0
        self._file = -1
        self._size = self._sequence = 0
        self._lock = trio.Lock()
        self.head = _FIRST
        """The hash of the last line that was written."""

    async def __aenter__(self) -> Self:
        await trio.to_thread.run_sync(self._open)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with trio.CancelScope(shield=True):
            problem = await self._flush()
            await trio.to_thread.run_sync(os.close, self._file)
        self._file = -1
        if lost := len(self._waiting) + self._dropped:
            logger.error("%d lines of the audit could not be written: %s", lost, problem)

    # What runs

    async def before_run(self, agent: AgentContext, call: ToolRun) -> str | None:
        """Write that a call runs, and wait until that is on disk; else refuse the call."""
        approval = call.approval
        if self._file < 0:
            return "the audit is not open: enter it by `async with` around the runtime"
        if len(self._waiting) >= MAX_WAITING and (problem := await self._flush()):
            self._dropped += 1
            return f"the audit can't be written: {problem}"
        facts: dict[str, object] = {"tool": call.name, "call": call.id, "by_client": call.by_client}
        facts["input"] = self._digest(serde.encode(call.input))
        if approval is not None:
            facts |= {"who": approval.by, "rule": approval.rule, "digest": approval.digest}
        self._note("ran", agent, facts)
        problem = await self._flush()
        return f"the audit can't be written: {problem}" if problem else None

    # What else is said

    def before_turn(self, agent: AgentContext, message: UserInput | SubAgentResult) -> None:
        """Note who begins a turn."""
        self._note("turn", agent, {"who": message.sender, "input_id": message.id})

    def after_turn(self, agent: AgentContext, end: Done) -> None:
        """Note how it ended."""
        self._note("turn_end", agent, {"status": str(end.status)})

    def after_permission(
        self, agent: AgentContext, request: PermissionRequest, answer: Answer
    ) -> None:
        """Note what a person answered."""
        facts: dict[str, object] = {
            "tool": request.tool_name,
            "call": request.tool_use_id,
            "who": answer.by,
        }
        facts |= {"decision": str(answer.decision), "digest": request.digest}
        self._note("answered", agent, facts)

    def after_tool_call(
        self,
        agent: AgentContext,
        call: ToolUseBlock,
        result: ToolResult | None,
        error: BaseException | None,
    ) -> None:
        """Note how a model's call ended, even if it did not run."""
        status = "interrupted" if result is None else str(result.status)
        self._note("ended", agent, {"tool": call.name, "call": call.id, "status": status})

    def _note(self, event: str, agent: AgentContext, facts: dict[str, object]) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self._dropped += 1
            return
        at = timestamp(utc_now())
        if self._dropped:
            self._waiting.append({"event": "dropped", "at": at, "lines": self._dropped})
            self._dropped = 0
        about = {
            "event": event,
            "at": at,
            "session": agent.session_id,
            "agent": "/".join(agent.lineage),
            "turn": agent.current_turn,
        }
        self._waiting.append({**about, **self._redact(conceal(facts, agent))})
        if len(self._waiting) >= self._write_at and self._file >= 0:
            self._write_soon()

    # The file

    async def _flush(self) -> str:
        """Write what waits, and sync it; returns what went wrong, with everything still waiting."""
        problem = ""
        with trio.CancelScope(shield=True):
            async with self._lock:
                while self._writing is not None:
                    await self._writing.wait()
                if batch := tuple(self._waiting):
                    problem = await trio.to_thread.run_sync(self._append, batch)
                    self._note_written(batch, problem)
        return problem

    def _write_soon(self) -> None:
        """Have a thread write what waits; nothing waits for the thread."""
        if self._writing is not None or self._lock.locked():
            return
        batch, token = tuple(self._waiting), trio.lowlevel.current_trio_token()

        def write() -> None:
            problem = "its thread failed"
            try:
                problem = self._append(batch)
            finally:
                token.run_sync_soon(self._end_writing, batch, problem)

        trio.lowlevel.start_thread_soon(write, lambda _: None, "Audit")
        # Behind it: where no thread can be had, there is nothing that the next call could wait for.
        self._writing = trio.Event()

    def _end_writing(self, batch: Sequence[object], problem: str) -> None:
        assert self._writing is not None
        self._writing.set()
        self._writing = None
        self._note_written(batch, problem)

    def _note_written(self, batch: Sequence[object], problem: str) -> None:
        if not problem:
            del self._waiting[: len(batch)]
        self._write_at = SOON + (len(self._waiting) if problem else 0)

    def _append(self, batch: tuple[dict[str, object], ...], before: bytes = b"") -> str:
        head, sequence, lines = self.head, self._sequence, []
        for facts in batch:
            sequence += 1
            line, head = self._seal({"seq": sequence, **facts, "previous": head})
            lines.append(line)
        data = before + b"".join(lines)
        try:
            if os.write(self._file, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301
            os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):  # then the next audit says that the end is torn
                os.ftruncate(self._file, self._size)
            return error.strerror or str(error)
        self._size += len(data)
        self.head, self._sequence = head, sequence
        return ""

    def _seal(self, facts: dict[str, object]) -> tuple[bytes, str]:
        body = serde.encode(facts)[:-1]
        digest = self._digest(body)
        return b'%s,"hash":"%s"}\n' % (body, digest.encode()), digest

    def _digest(self, data: bytes) -> str:
        return _digest(data, self._key)

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            file = os.open(self._path, flags, 0o600)
        except OSError as error:
            raise AuditError(f"the audit {self._path} can't be opened: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            raise AuditError(
                f"another process writes the audit {self._path}", hint="give each process its own"
            ) from error
        self._size = os.fstat(file).st_size
        self._file = file
        try:
            self._go_on()
        except BaseException:
            self._file = -1
            os.close(file)
            raise

    def _go_on(self) -> None:
        """Find the last line, and note what can't be read behind it, in one write.

        A crash or a full disk may have torn that note too, so it is about all that can't be read.
        """
        torn = _Torn(self._key)
        for line in _read_lines(self._path):
            sealed = _SEAL.fullmatch(line)
            if sealed is None:
                torn.add(line)
                continue
            self.head, self._sequence = sealed["hash"].decode(), self._sequence + 1
            if torn.last:
                torn = _Torn(self._key)
        if torn.last:
            event: dict[str, object] = {
                "event": "torn",
                "at": timestamp(utc_now()),
                "line": torn.digest(),
            }
            if problem := self._append((event,), b"" if torn.last.endswith(b"\n") else b"\n"):
                raise AuditError(f"the audit {self._path} can't be written: {problem}")


def verify_audit(
    path: str | Path, key: bytes | None = None, head: str | None = None
) -> AuditReport:
    """Check that an audit is as it was written.

    Args:
        path: the file.
        key: the key that it was written with.
        head: a hash that was the last one, from elsewhere; without it, lines that were cut off at
            the end are not noticed.

    Raises:
        AuditError: the file can't be read.

    Example:
        >>> verify_audit("/dev/null").lines
        0
    """
    last, lines, torn = _FIRST, 0, _Torn(key)
    seen = {_FIRST}
    for number, line in enumerate(_read_lines(str(path)), 1):
        sealed = _SEAL.fullmatch(line)
        if sealed is None:
            torn.add(line)
            continue
        facts = _read_facts(sealed["body"] + b"}")
        if torn.last and facts.get("line") != torn.digest():
            return AuditReport(False, lines, last, False, f"line {number - 1} can't be read")
        if torn.last:
            torn = _Torn(key)
        digest = sealed["hash"].decode()
        if digest != _digest(sealed["body"], key):
            return AuditReport(False, lines, last, False, f"line {number} was changed")
        if facts.get("previous") != last or facts.get("seq") != lines + 1:
            why = f"line {number} does not follow the one before it"
            return AuditReport(False, lines, last, False, why)
        last, lines = digest, lines + 1
        seen.add(digest)
    if torn.last:
        is_torn = not torn.last.endswith(b"\n")
        why = "the last line is torn" if is_torn else "the last line can't be read"
        return AuditReport(False, lines, last, is_torn, why)
    if head is not None and head not in seen:
        return AuditReport(False, lines, last, False, "lines are missing at the end")
    return AuditReport(True, lines, last)


def _read_facts(body: bytes) -> dict[str, object]:
    try:
        facts = serde.loads(body)
    except GreenroomError:
        return {}
    return dict(facts) if isinstance(facts, dict) else {}


def _digest(data: bytes, key: bytes | None) -> str:
    return _begin_digest(key, data).hexdigest()


def _begin_digest(key: bytes | None, data: bytes = b"") -> "hmac.HMAC | hashlib._Hash":
    return hashlib.sha256(data) if key is None else hmac.new(key, data, hashlib.sha256)


class _Torn:
    """Lines that can't be read, of which only the last is kept: they may be a whole other file."""

    def __init__(self, key: bytes | None) -> None:
        self.last = b""
        self._digest = _begin_digest(key)

    def add(self, line: bytes) -> None:
        self._digest.update(self.last)
        self.last = line

    def digest(self) -> str:
        """Return the hash of the lines, without the end of the last one."""
        whole = self._digest.copy()
        whole.update(self.last.removesuffix(b"\n"))
        return whole.hexdigest()


def _read_lines(path: str) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            yield from file
    except OSError as error:
        raise AuditError(f"the audit {path} can't be read: {error.strerror}") from error

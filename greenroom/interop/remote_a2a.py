"""Turns of an agent elsewhere that is spoken to by A2A, whoever has made it.

Theory of operation
===================

A turn here is a task there. Its message goes out, and its events come back, until the task has
ended or asks something. A question is asked here, in words, and the answer is the next message to
the task. An interrupt here cancels the task there, and waits for its end.

The protocol has no positions: a connection that breaks can't be gone on with, so the turn fails
with a `RemoteLostError`, and what was sent may still be done there. The session here stores no
messages: a record names the context, by which a resumed agent goes on with the conversation.
"""

import base64
import binascii
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, repeat

import trio

from greenroom.core import (
    ContentBlock,
    DocumentBlock,
    GreenroomError,
    ImageBlock,
    PermissionRequest,
    TextBlock,
    TextComplete,
    TextDelta,
    TurnStatus,
    UserInput,
)
from greenroom.core._internal import clip, serde
from greenroom.interop import a2a_wire as wire
from greenroom.interop.a2a_peer import A2APeer
from greenroom.interop.remote_depth import DEPTH, count_remotes
from greenroom.interop.remote_server import RemoteError, RemoteLostError
from greenroom.interop.serving.served_sessions import OWNER
from greenroom.runtime import AgentInternals, TurnResult
from greenroom.runtime._internal import Turn, report_abandoned
from greenroom.session import AgentSession

_RECORD = "remote"
_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)  # seconds between two looks; the last goes on
_GRACE = 10.0  # seconds for a cancel to reach the far agent, and to come back
_MOST_ARTIFACTS = 100  # of one task
_MOST_DECLINED = 10  # questions of one task, in a row, that nobody answers
_ASKS = wire.State.INPUT_REQUIRED
_LONGEST_LINE, _LONGEST_QUESTION = 500, 20_000  # characters of what a person is asked
_DECLINED = "The person declines to answer."
_BAD = re.compile(r"[\x00-\x1f\x7f-\x9f/\\]+")
_log = logging.getLogger("greenroom.interop")


class A2AConversation:
    """A conversation with an agent elsewhere: its context there, over all turns."""

    def __init__(self, internals: AgentInternals, peer: A2APeer, context: str) -> None:
        """Talk to this agent, in a context that may be new, or the one on record."""
        self.internals, self.peer = internals, peer
        before = internals.session.last_record(_RECORD)
        if not context and isinstance(before, dict) and before.get("address") == peer.address:
            context = str(before["session"])
        self.context = context

    async def keep(self, context: str) -> None:
        """Keep on record which context it is.

        Raises:
            RemoteError: it is another than before.
        """
        if not context or context == self.context:
            return
        if self.context:
            raise RemoteError(f"{self.peer.host} answers in another context than ours")
        self.context = context
        own = self.internals.session
        if not (own.parent_session_id or own.get_metadata(OWNER)):
            own.set_metadata("archived", True)  # it has no conversation that could be listed
        self._note(is_open=True)
        await own.save()

    async def run_turn(self, turn: Turn, message: UserInput) -> None:
        """Do one turn.

        Raises:
            RemoteError: the far agent failed or refused, or makes no sense.
            RemoteLostError: it can't be reached.
        """
        await self.peer.find()
        self._note(is_open=True)  # if this is killed now, what was done there is unknown
        await self.internals.session.save(flush=True)
        try:
            await _FarTask(self, turn, message).run()
        finally:
            self._note(is_open=False)

    def _note(self, *, is_open: bool) -> None:
        record = {"address": self.peer.address, "session": self.context, "protocol": "a2a"}
        self.internals.session.add_record(_RECORD, {**record, "open": is_open})


def describe_open_task(session: AgentSession) -> str:
    """Say what an agent elsewhere may have done for a session here that was cut off, if so."""
    before = session.last_record(_RECORD)
    if not isinstance(before, dict) or not before.get("open"):
        return ""
    return f"the agent at {before.get('address')} may have done it"


class _FarTask:
    """One turn: the message goes there, and what comes of it is told here."""

    def __init__(self, conversation: A2AConversation, turn: Turn, message: UserInput) -> None:
        self._conversation, self._turn, self._message = conversation, turn, message
        self._internals, self._peer = conversation.internals, conversation.peer
        self._id = ""
        self._status: wire.Status | None = None
        self._reply = ""  # of an agent that answers without a task
        self._artifacts = dict[str, _Artifact]()
        self._count = 0
        self._depth = count_remotes(self._internals)
        self._failure: GreenroomError | None = None
        self._scope = trio.CancelScope(shield=True)
        self._begun, self._is_over = trio.Event(), trio.Event()

    async def run(self) -> None:
        """Do the turn.

        Raises:
            RemoteError: the far agent failed or refused, or makes no sense.
            RemoteLostError: it can't be reached.
        """
        async with trio.open_nursery() as nursery:
            try:
                nursery.start_soon(self._talk)
                await self._is_over.wait()
            finally:
                asked = self._status
                if self._failure is None:
                    with self._internals.cleanup(_GRACE):
                        await self._begun.wait()  # until then there is nothing to cancel
                        await self._cancel()
                    if self._is_open or not self._begun.is_set():
                        report_abandoned(self._internals, f"the task at {self._peer.host}")
                self._scope.cancel()
        if self._failure is not None:
            raise self._failure
        await self._finish(asked)

    async def _talk(self) -> None:
        """Say what is to be said, and take what comes, until the task has ended."""
        try:
            with self._scope:  # an interrupt ends it once the task is cancelled
                await self._exchange(self._message.id, _parts_of(self._message.content))
                declined = 0
                while self._status is not None and self._status.state is _ASKS:
                    answer = await self._ask(self._status)
                    declined = declined + 1 if answer == _DECLINED else 0
                    if declined > _MOST_DECLINED:
                        await self._give_up()
                    self._count += 1
                    next_id = f"{self._message.id}-{self._count}"
                    await self._exchange(next_id, (wire.Part(answer),))
        except GreenroomError as error:
            self._failure = error
        self._begun.set()
        self._is_over.set()

    @property
    def _is_open(self) -> bool:
        """Whether something may still be done there."""
        return bool(self._id) and not (self._status is not None and self._status.state.is_final)

    @property
    def _is_waiting(self) -> bool:
        """Whether it is this side's turn."""
        state = wire.State.UNSPECIFIED if self._status is None else self._status.state
        is_question = state in (_ASKS, wire.State.AUTH_REQUIRED)
        return state.is_final or is_question or bool(self._reply and not self._id)

    async def _exchange(self, message_id: str, parts: tuple[wire.Part, ...]) -> None:
        """Say something, and take what comes until it is this side's turn again."""
        message = wire.Message(
            message_id,
            "ROLE_USER",
            parts,
            self._conversation.context,
            self._id,
            {DEPTH: self._depth},
        )
        self._status = None
        if not self._peer.card.capabilities.streaming:
            await self._exchange_slowly(message)
            return
        given = wire.SendMessage(message)
        async with self._peer.open_stream("SendStreamingMessage", given) as stream:
            while events := await stream.take():
                for event in events:
                    await self._take(event)
                    if self._is_waiting:
                        return
        raise RemoteLostError(f"{self._peer.host} is lost: its stream has ended before the task")

    async def _exchange_slowly(self, message: wire.Message) -> None:
        """Say something to an agent without streams, and look again and again."""
        at_once = wire.Configuration(return_immediately=True)
        given = wire.SendMessage(message, at_once)
        await self._take(await self._peer.call("SendMessage", given, wire.Event))
        for pause in chain(_PAUSES, repeat(_PAUSES[-1])):
            if self._is_waiting:
                return
            await trio.sleep(pause)
            await self._look()

    async def _look(self) -> None:
        task = await self._peer.call("GetTask", wire.GetTask(self._id), wire.Task)
        await self._take(wire.Event(task=task))

    async def _take(self, event: wire.Event) -> None:
        """Take an event.

        Raises:
            RemoteError: it is of another task, or makes no sense.
        """
        if (task := event.task) is not None:
            self._id = self._id or task.id
            self._begun.set()
            await self._check(task.id, task.context_id)
            self._status = task.status
            for artifact in task.artifacts or ():
                self._keep(artifact)
        elif (update := event.status_update) is not None:
            await self._check(update.task_id, update.context_id)
            self._status = update.status
            if update.status.state is wire.State.WORKING and update.status.message is not None:
                await self._tell(update.status.message.text)
        elif (made := event.artifact_update) is not None:
            await self._check(made.task_id, made.context_id)
            self._keep(made.artifact, appends=made.append)
        elif (message := event.message) is not None:
            await self._conversation.keep(message.context_id)
            self._reply = message.text or " "
        else:
            raise RemoteError(f"{self._peer.host} sends an event of no kind that we know")

    async def _check(self, task_id: str, context_id: str) -> None:
        if not self._id or task_id != self._id:
            raise RemoteError(f"{self._peer.host} tells of another task than ours")
        await self._conversation.keep(context_id)

    def _keep(self, artifact: wire.Artifact, *, appends: bool = False) -> None:
        id_ = artifact.artifact_id
        if not (appends and id_ in self._artifacts):
            self._artifacts[id_] = _Artifact(id_, artifact.name)
        kept = self._artifacts[id_]
        kept.name = artifact.name or kept.name
        kept.parts.extend(artifact.parts)  # in place: it may come in any number of pieces
        if len(self._artifacts) > _MOST_ARTIFACTS:
            raise RemoteError(f"{self._peer.host} makes more than {_MOST_ARTIFACTS} artifacts")

    async def _tell(self, text: str) -> None:
        if text:
            await self._internals.send(TextDelta(text))
            await self._internals.send(TextComplete(text))

    async def _ask(self, status: wire.Status) -> str:
        """Ask the people here what the far agent asks, and return what they say."""
        text = "" if status.message is None else status.message.text
        line, _, rest = (text.strip() or "It asks for more, and does not say what.").partition("\n")
        request = PermissionRequest(
            "",
            clip(self._peer.card.name, 100) or "remote",
            clip(line, _LONGEST_LINE),
            clip(rest if len(line) <= _LONGEST_LINE else text, _LONGEST_QUESTION),
            options=(),
        )
        answer = await self._internals.request_permission(of=request, host=self._peer.host)
        if answer.by == "shutdown":
            await trio.sleep_forever()  # undecided: the interrupt that follows cancels the task
        return answer.message if answer.allowed and answer.message else _DECLINED

    async def _give_up(self) -> None:
        """Cancel a task that would ask for ever.

        Raises:
            RemoteError: always.
        """
        with trio.move_on_after(_GRACE):
            await self._cancel()
        raise RemoteError(
            f"the task at {self._peer.host} asks again and again, and nobody answers",
            hint="let somebody attend to the agent here, or say more in the input",
        )

    async def _cancel(self) -> None:
        """Cancel the task unless it has ended, and wait until it has."""
        if not self._is_open:
            return
        try:
            task = await self._peer.call("CancelTask", wire.NameTask(self._id), wire.Task)
            self._status = task.status if task.id == self._id else None
            for pause in chain(_PAUSES, repeat(_PAUSES[-1])):
                if not self._is_open:
                    return
                await trio.sleep(pause)
                await self._look()
        except GreenroomError as error:
            _log.info("the task at %s was not cancelled: %s", self._peer.host, error.message)
            with suppress(GreenroomError):
                await self._look()  # it may have ended meanwhile

    async def _finish(self, status: wire.Status | None) -> None:
        """Give the turn the result of the task, which had this status at last.

        Raises:
            RemoteError: it has no good one.
        """
        host = self._peer.host
        text = self._reply.strip()
        if status is not None:
            text = "" if status.message is None else status.message.text
            if status.state is wire.State.AUTH_REQUIRED:
                raise RemoteError(
                    f"the agent at {host} wants to be authorized: {clip(text, 1_000)}",
                    hint="do that by its own means, and send the input again",
                )
            if status.state is not wire.State.COMPLETED:
                word = status.state.removeprefix("TASK_STATE_").lower()
                raise RemoteError(f"the task at {host} ended there: {word}: {clip(text, 1_000)}")
        for artifact in self._artifacts.values():
            await self._save(artifact)
        if not text:
            made = wire.Message("m", "ROLE_AGENT", tuple(self._parts()))
            text = made.text
        await self._tell(text)
        self._turn.set_reply(TurnResult(TurnStatus.COMPLETED, text))

    def _parts(self) -> list[wire.Part]:
        """Return what was made, of one artifact a part where it is a text."""
        found = list[wire.Part]()
        for each in self._artifacts.values():
            texts = [part.text for part in each.parts if isinstance(part.text, str)]
            found.append(wire.Part("".join(texts)))
        return [part for part in found if part.text]

    async def _save(self, artifact: "_Artifact") -> None:
        """Keep an artifact with the session here; one that can't be kept is told in the log."""
        name = _BAD.sub("_", clip(artifact.name or artifact.id, 150)).strip() or "artifact"
        data, media_type = _content_of(artifact.parts)
        try:
            await self._internals.context.save_artifact(name, data, media_type=media_type)
        except (GreenroomError, ValueError) as error:
            _log.warning("an artifact of %s was not kept: %s", self._peer.host, error)


@dataclass
class _Artifact:
    """What has come of an artifact."""

    id: str
    name: str
    parts: list[wire.Part] = field(default_factory=list)


def _content_of(parts: Sequence[wire.Part]) -> tuple[str | bytes, str | None]:
    """Return what an artifact holds, and its media type if it is one that we know to keep."""
    pieces = list[str | bytes]()
    for part in parts:
        match part.kinds:
            case ("text",):
                pieces.append(str(part.text))
            case ("raw",):
                try:
                    pieces.append(base64.b64decode(str(part.raw), validate=True))
                except (binascii.Error, ValueError):
                    pieces.append(str(part.raw))
            case ("data",):
                pieces.append(serde.to_text(part.data))
            case ("url",):
                pieces.append(f"{part.url}\n")  # it is not fetched: whoever reads it may
            case _:
                pass  # it says nothing, or several things at once
    if all(isinstance(each, str) for each in pieces):
        return "".join(map(str, pieces)), None
    whole = b"".join(each if isinstance(each, bytes) else each.encode() for each in pieces)
    return whole, parts[0].media_type or None


def _parts_of(content: tuple[ContentBlock, ...]) -> tuple[wire.Part, ...]:
    """Return what is said, as the protocol has it; what has no bytes here is left out."""
    found = list[wire.Part]()
    for block in content:
        if isinstance(block, TextBlock):
            found.append(wire.Part(block.text))
        elif isinstance(block, ImageBlock | DocumentBlock) and block.data:
            found.append(wire.Part(raw=block.data, media_type=block.media_type))
    return tuple(found) or (wire.Part(""),)

"""What tools leave running beside an agent's turns, and how the agent learns of its end.

Theory of operation
===================

    begun (a record) ──it returns──▶ an input in the mailbox ──a turn takes it──▶ told (a record)
       │                  └──with nothing to tell──▶ told
       └──the life ends, or the process dies──▶ lost ──the next life opens──▶ a message, told

The functions run in the nursery of the life, beside the turns, so an interrupt leaves them, and a
life waits for their end. Each has a record in the session from its begin, and another one in the
commit by which the conversation learns of its end. So what a life finds begun and not told has
ended unseen, with an earlier life or with its process, and is told then, once; a fork is told that
it runs, if at all, for the other conversation. An input that is still in the mailbox is not lost:
it is taken later, or it is `Outcome.undelivered`.
"""

from collections.abc import Awaitable, Callable, Container
from typing import Protocol

import trio

from greenroom.core import Custom, Message, OutputChunk, TextBlock, UserInput
from greenroom.core._internal import ConversationInput, new_id, serde
from greenroom.runtime.errors import AgentNotRunningError
from greenroom.runtime.mailbox import Mailbox
from greenroom.runtime.tasks import Life, must_propagate, strip_cancelled
from greenroom.session import AgentSession

_KIND = "runtime.background"


class _Agent(Protocol):
    """What the background needs of its agent."""

    life: Life
    mailbox: Mailbox
    session: AgentSession

    def check_loop(self, what: str) -> None:
        """Raise `EventLoopError` if the caller is in another thread or event loop."""

    def publish(self, chunk: OutputChunk) -> None:
        """Publish a chunk."""


class Background:
    """The functions that run beside the turns of one agent."""

    def __init__(self, agent: _Agent) -> None:
        self._agent = agent
        self._scopes: dict[str, trio.CancelScope] = {}  # by the id of the input of its end

    def start(self, sender: str, label: str, run: Callable[[], Awaitable[str | None]]) -> None:
        """Run a function until it returns or the life ends; see `AgentContext.start_background`.

        Raises:
            AgentNotRunningError: the agent's function has returned.
            EventLoopError: called from another thread.
        """
        agent = self._agent
        agent.check_loop("start_background()")
        if agent.life.nursery is None:
            raise AgentNotRunningError("the agent's function has returned: nothing starts now")
        input_id = new_id("i")
        owner = agent.session.session_id
        agent.session.add_record(
            _KIND, {"begun": input_id, "sender": sender, "label": label, "session": owner}
        )
        self._scopes[input_id] = trio.CancelScope()
        agent.life.nursery.start_soon(
            self._run, input_id, sender, label, run, name=f"background: {label[:60]}"
        )

    async def _run(
        self, input_id: str, sender: str, label: str, run: Callable[[], Awaitable[str | None]]
    ) -> None:
        text, has_ended, scope = None, False, self._scopes[input_id]
        try:
            with scope:
                text = await run()
                has_ended = True
        except BaseException as error:
            if must_propagate(error):
                raise
            self._agent.life.fail(strip_cancelled(error))
        finally:
            del self._scopes[input_id]
            if not has_ended:
                self._publish_end(sender, label, f"{label} was ended with the agent")
        if text is not None:
            self._publish_end(sender, label, text.partition("\n")[0])
            metadata: dict[str, object] = {_KIND: input_id}
            content = (TextBlock(text),)
            self._agent.mailbox.put_result(
                UserInput(content, id=input_id, sender=sender, metadata=metadata)
            )
        elif has_ended:
            self._agent.session.add_record(_KIND, {"told": input_id})

    def _publish_end(self, sender: str, label: str, text: str) -> None:
        self._agent.publish(Custom("background.ended", {"sender": sender, "label": label}, text))

    def __len__(self) -> int:
        """How many functions may still run."""
        return len(self._scopes)

    def end(self) -> None:
        """End what still runs: the agent's function has returned."""
        for scope in tuple(self._scopes.values()):
            scope.cancel()


def tell_lost(session: AgentSession, waiting: Container[str]) -> bool:
    """Tell the conversation what ended unseen before this life; return whether it did.

    It waits for a later life where calls are open, since their results come first; `waiting` are
    the ids of the inputs that wait.
    """
    lost = _find_lost(session, waiting)
    if not lost or session.unstarted:
        return False
    for input_id, entry in lost.items():
        label = entry["label"]
        text = f"[{label} does not run any more: it has ended with the agent that started it]"
        if entry.get("session", session.session_id) != session.session_id:
            text = f"[{label} belongs to the conversation that this one was forked from]"
        session.add_message(Message.user(text, id=input_id, sender=entry["sender"]))
        session.add_record(_KIND, {"told": input_id})
    return True


def note_taken(session: AgentSession, message: ConversationInput) -> None:
    """Record that the conversation learns of an end, if the input tells of one."""
    if isinstance(message, UserInput) and message.metadata.get(_KIND) == message.id:
        session.add_record(_KIND, {"told": message.id})


def _find_lost(session: AgentSession, waiting: Container[str]) -> dict[str, dict[str, str]]:
    begun: dict[str, dict[str, str]] = {}
    for record in session.records(_KIND):
        entry = serde.convert(record, dict[str, str])
        if "told" in entry:
            begun.pop(entry["told"], None)
        elif entry["begun"] not in waiting:
            begun[entry["begun"]] = entry
    return begun

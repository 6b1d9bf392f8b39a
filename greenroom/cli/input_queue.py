"""The inputs that a person has sent to an agent, and that it has not answered yet."""

from collections.abc import Sequence

import msgspec

from greenroom import core
from greenroom.cli.render_chunk import render_user
from greenroom.cli.screen import Screen
from greenroom.core import ContentBlock, OutputChunk
from greenroom.runtime import AgentHandle, AgentNotRunningError


class SentInput(msgspec.Struct, frozen=True):
    """An input as the person has typed it, and as it was shown."""

    text: str
    shown: str


class InputQueue:
    """Sends inputs, shows those that wait, and takes them back.

    An input is printed when its turn begins, or when it joins the turn that runs.
    """

    def __init__(self, handle: AgentHandle, screen: Screen) -> None:
        self._handle = handle
        self._screen = screen
        self._unanswered_ids: set[str] = set()
        self._queued: dict[str, SentInput] = {}
        self._steered: dict[str, SentInput] = {}  # meant for the open turn, at its next step

    @property
    def is_answered(self) -> bool:
        """Whether every input has been answered."""
        return not self._unanswered_ids

    @property
    def waiting(self) -> Sequence[str]:
        """What waits for its turn, as it was shown."""
        return [each.shown for each in self._queued.values()]

    def note(self, chunk: OutputChunk) -> None:
        """Follow a chunk of the agent: an input is taken, joins a turn, or is answered."""
        match chunk:
            case core.TurnStart() if chunk.input_id in self._queued:
                self._print(chunk.input_id)
            case core.Custom(kind="input.joined"):
                input_id = str(chunk.data.get("input_id"))
                self._unanswered_ids.discard(input_id)
                if input_id in self._queued:
                    self._print(input_id)
            case core.Done():
                self._unanswered_ids.discard(chunk.input_id)
                self._steered.clear()
            case _:
                pass

    def _print(self, input_id: str) -> None:
        self.echo(self._queued.pop(input_id).shown)
        self._show()

    def echo(self, text: str) -> None:
        """Print what the person has said, unless the terminal has shown it as it was typed."""
        if not self._screen.terminal.echoes:
            self._screen.print(render_user(text, self._screen.scheme))

    def send(self, sent: SentInput, content: str | Sequence[ContentBlock]) -> bool:
        """Send an input; return whether it was taken or queued."""
        try:
            receipt = self._handle.send_input_nowait(content)
        except (core.MailboxFullError, AgentNotRunningError) as error:
            self._screen.error(f"not sent: {sent.shown}\n{error}")
            return False
        if receipt.status == "queued":
            # It is printed when its turn begins; until then it is shown below.
            self._queued[receipt.input_id] = sent
            self._show()
        else:
            self.echo(sent.shown)
        if receipt.status == "steered":
            self._steered[receipt.input_id] = sent
        else:
            self._unanswered_ids.add(receipt.input_id)
        return True

    def send_hidden(self, text: str, metadata: dict[str, object]) -> None:
        """Send an input that asks the agent's function for something, and is not shown."""
        try:
            receipt = self._handle.send_input_nowait(text, metadata=metadata)
        except (core.MailboxFullError, AgentNotRunningError) as error:
            self._screen.error(f"not done: {error}")
        else:
            self._unanswered_ids.add(receipt.input_id)

    async def steer_first(self) -> None:
        """Let the first input that waits join the turn that runs."""
        if self._queued and await self._handle.steer_input(next(iter(self._queued))):
            self._screen.hint = "the first queued input joins the turn at its next step"

    async def take_back(self, *, only_last: bool = False) -> None:
        """Return inputs that the agent has not taken to the person's line: all, or the last one."""
        sent = self._steered | self._queued
        ids = list(sent)[-1:] if only_last else list(sent)
        withdrawn = await self._handle.withdraw_inputs(*ids)
        for id_ in withdrawn:
            self._unanswered_ids.discard(id_)
            self._steered.pop(id_, None)
            self._queued.pop(id_, None)
        if withdrawn:
            self._screen.put_back("\n".join(sent[id_].text for id_ in withdrawn))
        self._show()

    def _show(self) -> None:
        self._screen.queued_inputs = tuple(self.waiting)

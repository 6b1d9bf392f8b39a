"""Compaction: shorten a conversation that outgrows the model's window, and lose little of it.

When a conversation takes up more than a share of the window, old tool results shrink to a line
each. If that is not enough, a summary replaces the older messages: a model's notes on them, and the
user's own words, verbatim. Each change is one record of the session: after a kill the conversation
is either as it was before or compacted, and the removed messages stay in the session's file.

Between two compactions a conversation only grows, so each request extends the last one byte for
byte, and the provider's prompt cache hits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace as replace_value
from functools import lru_cache
from operator import is_

import msgspec
from msgspec.structs import replace

from greenroom.core import (
    Custom,
    Message,
    ModelRequest,
    TextBlock,
    ToolDefinition,
    ToolResultBlock,
    Usage,
    UsageReport,
    UserInput,
)
from greenroom.core._internal import ConversationInput, clip
from greenroom.llm import EstimatedCounter, LLMProvider, ModelError, TokenCounter
from greenroom.llm._internal import substitute_model
from greenroom.memory.context_window import (
    MIN_ROOM,
    ContextBudget,
    Unit,
    begins_turn,
    count_newest,
    fit,
    is_from_person,
    is_repeated,
    units_of,
)
from greenroom.memory.memory_protocol import EntryOrigin, Memory
from greenroom.memory.window_watch import WindowWatch
from greenroom.runtime import AgentInternals

COMPACT = {"command": "compact"}
"""The metadata of an input that only asks to compact the conversation.

Beside it `about` may hold words that the summary should keep in view.
"""


def find_compaction(message: ConversationInput) -> str | None:
    """Return what an input says that a compaction is about; None if it does not ask for one."""
    asked = message.metadata if isinstance(message, UserInput) else {}
    return str(asked.get("about", "")) if COMPACT.items() <= asked.items() else None


_SHORT = 200  # characters of a result that is not worth shrinking
_MAX_NOTES, _MAX_USER_WORDS = 8_000, 20_000  # tokens, however large the window is
_MAX_ENTRIES = 200  # texts of a compaction that are stored in the memory, the newest
_MAX_ENTRY = 2_000  # characters of each


_BARE = ModelRequest(messages=())


class Compactor:
    """Keeps the conversation of one agent within its model's window.

    Call `prepare` before each request, or pass the compactor to `stream_reply`, which does so, and
    which compacts and retries once when the model says that a request is too long.

    Args:
        llm: writes the notes; usually the model that the agent uses.
        budget: the window and its shares; by default the `window`. If the window is unknown,
            nothing is compacted until the model refuses a request.
        window: the tokens that the model takes, request and reply together; by default what
            `find_window` says.
        at: the share of the room at which a conversation is compacted.
        down_to: the share that it is reduced to.
        counter: counts tokens; by default estimates that learn from what the model reports.
        memory: stores the messages that a compaction removes from the conversation.

    Example:
        ```python
        compactor = Compactor(llm, ContextBudget(200_000))
        async for message in agent.inputs():
            async with agent.turn(message):
                messages = await compactor.prepare(agent)
                await stream_reply(agent, llm, messages=messages)
        ```
    """

    def __init__(
        self,
        llm: LLMProvider,
        budget: ContextBudget | None = None,
        *,
        window: int | None = None,
        at: float = 0.7,
        down_to: float = 0.35,
        counter: TokenCounter | None = None,
        memory: Memory | None = None,
    ) -> None:
        """Take a model and a budget.

        Raises:
            ValueError: not 0 < `down_to` < `at` <= 1.
            ConfigurationError: the window is not a number of tokens.
        """
        if not 0 < down_to < at <= 1:
            raise ValueError(f"a conversation can't go from {at} of the room down to {down_to}")
        self._llm = llm
        known = budget.window if budget else window
        self._watch = WindowWatch(llm, known, has_memory=memory is not None)
        self._budget = budget
        self._at = at
        self._down_to = down_to
        self._counter = _ModelCounter(counter or EstimatedCounter(), llm)
        self._memory = memory
        # A request without messages, with the system prompt and the tools of the last ones.
        self._bare = _BARE
        # The request that waits for its reply, and its estimated tokens.
        self._last_request: ModelRequest | None = None
        self._last_size = 0

    async def prepare(
        self,
        agent: AgentInternals,
        *,
        instructions: str | Sequence[TextBlock] = "",
        tools: Sequence[ToolDefinition] = (),
    ) -> tuple[Message, ...]:
        """Return the messages of the next request: the conversation, compacted first if it is time.

        Args:
            agent: the agent, in a turn.
            instructions: the system prompt of that request.
            tools: its tools.

        Raises:
            BudgetExceededError: the agent has no budget for the call that writes the notes.
            SessionError: the session can't be stored.
        """
        await self.prepare_request(agent, _request(agent, instructions, tools))
        return agent.session.history

    async def prepare_request(self, agent: AgentInternals, request: ModelRequest) -> ModelRequest:
        """Return the next request, with the conversation as its messages, compacted if it is time.

        Args:
            agent: the agent, in a turn.
            request: the request, with the conversation as it is.

        Raises:
            BudgetExceededError: as `prepare`.
            SessionError: as `prepare`.
        """
        await self.note_reply(agent)
        size = self._counter.count(request)
        if self._watch.matters(size) and await self._shorten(agent, request, size):
            request = replace_value(request, messages=agent.session.history)
            size = self._counter.count(request)
        self._last_request, self._last_size = request, size
        return request

    async def _shorten(self, agent: AgentInternals, request: ModelRequest, size: int) -> bool:
        """Compact the conversation if it is time; return whether it was."""
        budget = self._budget or await self._watch.budget()
        if self._is_tight(size, budget):  # else it is not, either, beside what else it holds
            budget = await self._budget_for(agent, request)
            if self._is_tight(size, budget) and await self._watch.settle():
                budget = await self._budget_for(agent, request)
        is_tight = self._is_tight(size, budget)
        most = round(size * (1 + self._counter.error))
        await self._watch.check_request(agent, most, is_tight=is_tight)
        if budget is not None and is_tight:
            await self._compact(agent, size - budget.overhead, budget, self._at * budget.room)
        return is_tight

    def _is_tight(self, size: int, budget: ContextBudget | None) -> bool:
        return budget is not None and size - budget.overhead > self._at * budget.room

    async def note_reply(self, agent: AgentInternals) -> None:
        """Learn from the reply to the last prepared request; `prepare` does so too.

        If the reply reports that the server has read far less than was sent, a warning is
        published.

        Raises:
            SessionError: the session takes no records.
        """
        request, self._last_request = self._last_request, None
        history = agent.session.history
        if request is None or len(history) <= len(request.messages):
            return
        reply = history[len(request.messages)]
        is_its_reply = reply.role == "assistant" and all(map(is_, request.messages, history))
        if not is_its_reply:
            return
        await self._watch.note_reply(agent)
        if reply.usage is None:
            return
        usage = reply.usage
        if not await self._watch.check_usage(agent, request, self._last_size, usage):
            self._counter.observe(request, usage)

    def take_warnings(self) -> list[str]:
        """Return what a person should be told about the window, since the last call."""
        return self._watch.take_warnings()

    async def compact(
        self,
        agent: AgentInternals,
        *,
        instructions: str | Sequence[TextBlock] = "",
        tools: Sequence[ToolDefinition] = (),
        about: str = "",
    ) -> bool:
        """Compact the conversation now; return whether it became shorter.

        A conversation of at most 64 tokens stays as it is.

        Args:
            agent: the agent, in a turn.
            instructions: the system prompt of its requests.
            tools: their tools.
            about: what the notes should keep in view, in the person's words.

        Raises:
            BudgetExceededError: as `prepare`.
            SessionError: as `prepare`.
        """
        budget = await self._budget_for(agent, _request(agent, instructions, tools))
        used = self._counter.count(agent.session.history)
        if budget is None:
            budget = ContextBudget(max(used, MIN_ROOM), reply=0)
        before = agent.session.history
        if used > MIN_ROOM:  # a summary would be longer
            await self._compact(agent, used, budget, self._at * min(used, budget.room), about)
        request = self._last_request = _request(agent, instructions, tools)
        self._last_size = self._counter.count(request)
        is_shorter = agent.session.history != before
        if not is_shorter:
            text = "the conversation can't be made shorter"
            await agent.send(Custom("memory.compacted", {}, text))
        return is_shorter

    async def _budget_for(
        self, agent: AgentInternals, request: ModelRequest
    ) -> ContextBudget | None:
        budget = self._budget or await self._watch.budget()
        if budget is None or budget.overhead:
            return budget
        if _parts(self._bare) != _parts(request):
            self._bare = replace_value(request, messages=())
        overhead = self._counter.count(self._bare)
        if budget.room - overhead < MIN_ROOM:
            if self._budget is None and await self._watch.settle():
                return await self._budget_for(agent, request)
            await self._watch.check_overhead(agent, overhead)
            return None  # the estimate may be off; the model refuses what does not fit
        return _leave_room(budget, overhead)

    async def _compact(
        self,
        agent: AgentInternals,
        used: int,
        budget: ContextBudget,
        most: float,
        about: str = "",
    ) -> None:
        """Reduce the conversation to its target share, or at least to `most` tokens."""
        session, target = agent.session, self._down_to * min(used, budget.room)
        before = session.history
        units = units_of(before)
        keep = max(count_newest(units, budget.recent * target, self._counter), 1)
        while keep < len(units) and is_repeated(units[-keep][0]):
            keep += 1  # keep a recalled memory next to the input that it was recalled for
        old, recent = units[: len(units) - keep], units[len(units) - keep :]
        shrunk = _shrink_results(old)
        messages = _join(shrunk + recent)
        if self._counter.count(messages) <= target:
            if messages != before:
                await session.rewrite(messages)
        else:
            await self._summarise(agent, _join(old), _join(recent), target, budget, about)
            if self._counter.count(session.history) > most:
                room = replace(budget, window=max(int(most), MIN_ROOM), reply=0, overhead=0)
                await session.rewrite(fit(session.history, room, self._counter))
        await self._report(agent, before)

    async def _summarise(
        self,
        agent: AgentInternals,
        old: Sequence[Message],
        recent: Sequence[Message],
        target: float,
        budget: ContextBudget,
        about: str,
    ) -> None:
        """Replace the older messages with notes on them and the user's own words."""
        from greenroom.memory.summary import Summary, user_words  # most conversations need none

        known = Summary.find(old)
        segment, summary = (old[1:], known) if known else (old, Summary())
        if not segment:
            return
        most = min(max(int(budget.summary * target), MIN_ROOM), _MAX_NOTES)
        notes, reply = await self._take_notes(agent, summary.notes, segment, most, budget, about)
        begun = sum(map(begins_turn, segment))
        summary = replace(summary, notes=notes, turns=summary.turns + begun)
        bare = replace(summary, user_messages=())
        room = target - self._counter.count(recent) - self._counter.count([bare.message()])
        room = max(room, budget.recalled * target)  # however long the newest message is
        summary = summary.add_user_messages(
            user_words(segment), min(room, _MAX_USER_WORDS), self._counter
        )
        await agent.session.compact(summary.message(reply), len(recent))
        if self._memory is not None:
            await _store(agent, self._memory, segment, summary.turns - begun + 1)

    def count(self, request: ModelRequest) -> int:
        """Estimate the tokens of a request."""
        return self._counter.count(request)

    async def _take_notes(
        self,
        agent: AgentInternals,
        notes: str,
        segment: Sequence[Message],
        most: int,
        budget: ContextBudget,
        about: str,
    ) -> tuple[str, Message | None]:
        """Ask the model for notes; return the old ones if it fails, or writes none."""
        from greenroom.memory.summary import ask_for_summary, check_notes

        reply: Message | None = None
        request = ask_for_summary(notes, segment, most, budget.window, self._counter, about)
        llm = substitute_model(agent.context, self._llm)
        try:
            async with agent.model_call(llm, request, self.count) as call:
                reply = call.reply = await llm.generate(request)
                if reply.usage is not None:
                    agent.send_nowait(UsageReport(reply.usage, model=reply.model or llm.model))
                reply = call.reply = replace(reply, model=reply.model or llm.model)
            check_notes(reply)
        except ModelError as error:
            await agent.send(Custom("memory.failed", {"error": type(error).__name__}, f"{error}"))
            return notes, reply
        room = ContextBudget(most, reply=0)
        (kept,) = fit([Message.user(reply.text)], room, self._counter)
        return kept.text, reply

    async def _report(self, agent: AgentInternals, before: Sequence[Message]) -> None:
        """Publish how much shorter the conversation became."""
        after = agent.session.history
        if after == before:
            return
        sizes = {"before": self._counter.count(before), "after": self._counter.count(after)}
        text = f"the conversation was shortened: {sizes['before']:,} tokens to {sizes['after']:,}"
        await agent.send(Custom("memory.compacted", dict(sizes), text))


class _ModelCounter(msgspec.Struct, frozen=True):
    """A counter that fills in the name of the model."""

    counter: TokenCounter
    llm: LLMProvider

    def count(self, what: ModelRequest | Sequence[Message], *, model: str = "") -> int:
        return self.counter.count(what, model=model or self.llm.model)

    def observe(self, request: ModelRequest, usage: Usage, *, model: str = "") -> None:
        self.counter.observe(request, usage, model=model or self.llm.model)

    @property
    def error(self) -> float:
        return self.counter.error


def _request(
    agent: AgentInternals, system: str | Sequence[TextBlock], tools: Sequence[ToolDefinition]
) -> ModelRequest:
    """Return the parts of the agent's next request that take up tokens."""
    return ModelRequest(messages=agent.session.history, system=system, tools=tuple(tools))


def _parts(request: ModelRequest) -> tuple[object, ...]:
    """Return what is counted of a request besides its messages."""
    return request.system, request.tools, request.output, request.options


@lru_cache(maxsize=64)
def _leave_room(budget: ContextBudget, overhead: int) -> ContextBudget:
    return replace(budget, overhead=overhead)


def _join(units: Sequence[Unit]) -> tuple[Message, ...]:
    return tuple(message for unit in units for message in unit)


def _shrink_results(units: Sequence[Unit]) -> list[Unit]:
    """Replace each long result with a line that names its call."""
    return [tuple(_shrink(message, unit) for message in unit) for unit in units]


def _shrink(message: Message, unit: Unit) -> Message:
    if not message.tool_results:
        return message
    names = {call.id: call.name for each in unit for call in each.tool_uses}
    blocks = tuple(
        _shrink_result(block, names.get(block.tool_use_id, "the tool"))
        if isinstance(block, ToolResultBlock)
        else block
        for block in message.content
    )
    return message if blocks == message.content else replace(message, content=blocks)


def _shrink_result(block: ToolResultBlock, name: str) -> ToolResultBlock:
    is_text = all(isinstance(each, TextBlock) for each in block.content)
    if is_text and len(block.text) <= _SHORT:
        return block
    what = f"{len(block.text)} characters" if is_text else "The contents"
    line = f"[{what} that {name} returned are left out here: call {block.tool_use_id}]"
    return replace(block, content=(TextBlock(line),))


async def _store(
    agent: AgentInternals, memory: Memory, segment: Sequence[Message], first_turn: int
) -> None:
    """Store messages in a memory, with their session, turn and origin.

    If the memory fails, that is published as `Custom("memory.failed")`; the session still has the
    messages.
    """
    from greenroom.memory.failures import report_failure

    session_id = agent.session.session_id
    try:
        for text, origin, turn in list(_texts(segment, first_turn))[-_MAX_ENTRIES:]:
            entry = clip(text, _MAX_ENTRY)
            await memory.add(entry, origin=origin, session_id=session_id, turn=turn)
    except Exception as error:  # noqa: BLE001  # whatever a memory raises, the turn goes on
        await report_failure(agent, "the memory could not store the removed messages", error)


def _texts(segment: Sequence[Message], turn: int) -> Iterator[tuple[str, EntryOrigin, int]]:
    """Yield each text with its origin and its turn; the segment begins with this turn."""
    turn -= 1
    for message in segment:
        turn += begins_turn(message)
        if is_repeated(message):
            continue
        origin = EntryOrigin.USER if is_from_person(message) else EntryOrigin.AGENT
        for block in message.content:
            match block:
                case TextBlock(text) if text.strip():
                    yield text, origin, max(turn, 1)
                case ToolResultBlock() if block.text.strip():
                    yield block.text, EntryOrigin.TOOL, max(turn, 1)
                case _:
                    pass

"""Watches a model's window: how large it is, and what a person should be told about it.

Some servers drop the beginning of a request that is too long, and answer as if nothing had
happened; others have a window that nobody knows. Neither stops a conversation, so each is said
once a session, as a warning. Nothing is looked up for a conversation that fits into any window.
"""

from collections.abc import Mapping
from functools import lru_cache

from greenroom.core import Custom, ModelRequest, Usage
from greenroom.llm import LLMProvider, find_window
from greenroom.llm._internal import ContextWindow, check_window, shows_media, window_of
from greenroom.memory.context_window import USUAL_REPLY, ContextBudget
from greenroom.runtime import AgentInternals

UNKNOWN_LIMIT = 10_000
"""The tokens of a request that are worth a warning if the window is unknown."""

_WARNING = "context.warning"
_FITS_ALWAYS = 1_500  # tokens; no server that is of use to an agent has so small a window
_DROPPED = 0.6  # fewer of the estimated tokens mean that the server dropped some
_NEAR = 0.8  # of the window: no server drops anything from a request much below it
_SMALLEST = 4_096  # the smallest window that servers choose by themselves
_LEAST = 1_000  # tokens that are left in the smallest window; a smaller report is not the whole
_REMEDY = "say how large it is: window= of Agent and open_model, or in settings.json"


@lru_cache(maxsize=64)
def _share(tokens: int) -> ContextBudget:
    """Share a window of so many tokens between a request and its reply."""
    return ContextBudget(tokens, reply=min(USUAL_REPLY, tokens // 4))


class WindowWatch:
    """The window of one agent's model, and the warnings about it.

    Args:
        llm: the model.
        given: the window that the program gives; without it, that of the provider counts, and else
            `find_window` looks for one.
        has_memory: whether a memory is to keep what is taken out of the conversation.

    Raises:
        ConfigurationError: the given window is not a number of tokens.
    """

    def __init__(self, llm: LLMProvider, given: int | None, *, has_memory: bool = False) -> None:
        """Begin; nothing is looked up yet."""
        self._has_memory = has_memory
        self._llm = llm
        self._name = f"{llm.name}:{llm.model}"
        tokens = check_window(given) or window_of(llm)
        self._window = ContextWindow(tokens, "given") if tokens else None
        self._warnings: list[str] = []
        self._said: set[str] = set()

    def matters(self, size: int) -> bool:
        """Whether a request of so many tokens might not fit, so that the window must be known."""
        self._follow_model()
        return self._window is not None or size >= _FITS_ALWAYS

    async def find(self, *, has_replied: bool = False) -> ContextWindow:
        """Return what is known of the window; it is looked up until that is final."""
        self._follow_model()
        if self._window is None or not self._window.is_final:
            self._window = await find_window(self._llm, has_replied=has_replied)
        return self._window

    def _follow_model(self) -> None:
        """Forget the window of a model that another one has replaced."""
        name = f"{self._llm.name}:{self._llm.model}"
        if name != self._name:
            tokens = window_of(self._llm)
            self._name = name
            self._window = ContextWindow(tokens, "given") if tokens else None
            self._said.clear()

    async def settle(self) -> bool:
        """Have the server say for certain how large the window is; return whether that is news."""
        before = await self.find()
        if not before.is_final:
            self._window = await find_window(self._llm, load=True)
        return self._window != before

    async def budget(self) -> ContextBudget | None:
        """Return the window with a share for the reply, or None if its size is not known."""
        tokens = (await self.find()).tokens
        if tokens is None:
            return None
        return _share(tokens)

    def take_warnings(self) -> list[str]:
        """Return the warnings since the last call."""
        warnings, self._warnings = self._warnings, []
        return warnings

    async def check_request(self, agent: AgentInternals, size: int, *, is_tight: bool) -> None:
        """Warn if a request may be longer than the model takes.

        Args:
            agent: the agent that sends it.
            size: the most tokens that it may take, by an estimate.
            is_tight: whether it is so long that the conversation has to be shortened.
        """
        window = await self.find()
        if window.source == "unknown" and size > UNKNOWN_LIMIT:
            text = (
                f"the context window of {self._name} is not known, and the next request may"
                f" take {size:,} tokens: nothing is shortened before the model refuses it"
            )
            if self._has_memory:
                text += ", and until then nothing of the conversation is added to the memory"
            await self._warn(agent, "unknown", text, {"tokens": size})
        if window.is_final or is_tight:
            await self._check_assumption(agent, window)

    async def _check_assumption(self, agent: AgentInternals, window: ContextWindow) -> None:
        if window.source == "assumed":
            text = (
                f"{self._llm.name} does not say how large the context window of {self._name} is:"
                f" {window.tokens:,} tokens are assumed"
            )
            await self._warn(agent, "assumed", text, {"window": window.tokens})

    async def check_overhead(self, agent: AgentInternals, overhead: int) -> None:
        """Warn that the system prompt and the tools alone fill the window."""
        tokens = (await self.find()).tokens or 0
        text = (
            f"the system prompt and the tools take about {overhead:,} tokens, and the context"
            f" window of {self._name} has {tokens:,}: use fewer tools or a larger window"
        )
        await self._warn(agent, "overhead", text, {"tokens": overhead, "window": tokens}, remedy="")

    async def note_reply(self, agent: AgentInternals) -> None:
        """Ask for the window again if its server knows it only now, and warn if it does not."""
        if self._window is not None:
            await self._check_assumption(agent, await self.find(has_replied=True))

    async def check_usage(
        self, agent: AgentInternals, request: ModelRequest, size: int, usage: Usage
    ) -> bool:
        """Return whether the server read far less than was sent; warn if so.

        Args:
            agent: the agent that got the reply.
            request: what was sent; one with media is not judged, whose size is hard to estimate.
            size: the estimated tokens of the request.
            usage: what the reply reports.
        """
        if not self.matters(size):
            return False
        window = await self.find()
        parts = (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
        read = sum(part or 0 for part in parts)
        # A person may give a larger window than the server has.
        is_sure = window.tokens is not None and window.source != "given"
        limit = (window.tokens or 0) if is_sure else _SMALLEST
        if not _LEAST <= read < _DROPPED * size or size < _NEAR * limit:
            return False
        if shows_media(request.messages):  # last: it looks at each message
            return False
        text = (
            f"{self._llm.name} has read {read:,} tokens of a request of about {size:,}: it dropped"
            f" a part of the conversation, probably its beginning, since its window is smaller"
        )
        await self._warn(agent, "dropped", text, {"tokens": size, "read": read})
        return True

    async def _warn(
        self,
        agent: AgentInternals,
        reason: str,
        text: str,
        facts: Mapping[str, object],
        remedy: str = _REMEDY,
    ) -> None:
        """Publish a warning, unless this session has had it for this model."""
        record = {"reason": reason, "model": self._name}
        if reason in self._said or record in agent.session.records(_WARNING):
            return
        self._said.add(reason)
        agent.session.add_record(_WARNING, record)
        text = f"{text}; {remedy}" if remedy else text
        self._warnings.append(text)
        await agent.send(Custom(_WARNING, {**record, **facts}, text))

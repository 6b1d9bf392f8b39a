"""A conversation that is cut off anywhere loads as one that a model API accepts."""

from contextlib import suppress

import trio
from hypothesis import event, given, strategies as st

from greenroom.core import Message, SessionError, TextBlock, ToolResultBlock, ToolUseBlock
from greenroom.session import AgentSession, InMemoryStore
from tests.session.accepted import check_accepted

SAY = st.just(("say",))
REPLY = st.tuples(st.just("reply"), st.integers(0, 4))
START = st.tuples(st.just("start"), st.integers(1, 4))
ANSWER = st.tuples(st.just("answer"), st.integers(1, 4))
SAVE = st.tuples(st.just("save"), st.booleans())
REWIND = st.tuples(st.just("rewind"), st.integers(1, 12))
COMPACT = st.tuples(st.just("compact"), st.integers(0, 6))
STEPS = st.lists(
    st.one_of(SAY, REPLY, REPLY, START, ANSWER, ANSWER, SAVE, SAVE, REWIND, COMPACT),
    min_size=5,
    max_size=30,
)


class Talk:
    """What an agent does to its session: parallel calls, whose ids repeat in later replies."""

    def __init__(self, session):
        self.session = session
        self._open = []

    async def step(self, kind, *values):
        await getattr(self, kind)(*values)

    async def say(self):
        self._pair()
        self.session.add_message(Message.user("go"))

    async def reply(self, count):
        self._pair()
        self._open = [f"call-{number}" for number in range(count)]
        calls = [ToolUseBlock(id_, "Read", {}) for id_ in self._open]
        self.session.add_message(Message.assistant([TextBlock("ok"), *calls]))

    async def start(self, count):
        self.session.mark_tools_started(self._open[:count])

    async def answer(self, count):
        ready, self._open = self._open[:count], self._open[count:]
        if ready:
            self.session.add_message(
                Message.user([ToolResultBlock(id_, (TextBlock("done"),)) for id_ in ready])
            )

    async def save(self, flush):
        await self.session.save(flush=flush)

    async def rewind(self, to):
        await self.session.rewind(min(to, len(self.session.history)))
        self._open = []

    async def compact(self, keep):
        with suppress(SessionError):  # so few messages that nothing would be left out
            await self.session.compact("So far so good.", keep)

    def _pair(self):
        self.session.conversation.pair_tool_uses()
        self._open = []


async def talk(store, steps):
    session = AgentSession.new("coder", session_id="s-1", store=store)
    session.add_message(Message.user("hello"))
    conversation = Talk(session)
    for step in steps:
        await conversation.step(*step)
    await session.save()
    return session


async def check_every_cut(steps):
    store = InMemoryStore()
    session = await talk(store, steps)
    data = store._sessions["s-1"].history
    whole = bytes(data)
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    event(f"{len(ends)} commits")
    for end in ends:
        for torn in (0, 1):  # the commit is whole, or lacks its last byte
            data[:] = whole[: end - torn]
            loaded = await AgentSession.load("s-1", store=store)
            if not loaded.history:
                assert (end, torn) == (ends[0], 1)
                continue
            check_accepted(loaded.history)
            loaded.add_message(Message.user("and now?"))
            check_accepted(loaded.history)
    session.conversation.pair_tool_uses()
    data[:] = whole
    assert (await AgentSession.load("s-1", store=store)).history == session.history


@given(STEPS)
def test_wherever_it_is_cut_off_a_model_accepts_it_and_what_is_said_next(steps):
    trio.run(check_every_cut, steps)

"""The ledger: what was paid for, by day, agent, model, session, root and owner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date
from typing import NamedTuple

from greenroom.core import (
    AgentContext,
    Exited,
    Instrument,
    OutputChunk,
    SessionNotFoundError,
    Usage,
    UsageReport,
    utc_now,
)
from greenroom.session import SessionCorruptError, SessionMetadata, SessionStore
from greenroom.session._internal import descendants, read_paid_calls

OWNER = "owner"
"""The key of a session's metadata that says who pays; the root's holds for all below it."""


class LedgerKey(NamedTuple):
    """What a row of the ledger is about.

    Attributes:
        day: the day, in UTC.
        agent: the agent's type.
        model: the model, as the provider names it.
        session: its session.
        root: the session at the top of its tree.
        owner: who pays: the root's metadata under "owner"; else empty.
    """

    day: date
    agent: str
    model: str
    session: str
    root: str
    owner: str


@dataclass(frozen=True)
class _Account:
    root: str
    owner: str


class Ledger(Instrument):
    """Adds up the usage of every model call, even of those whose replies were thrown away.

    As an instrument of a runtime it counts from then on; `of_store` counts what sessions have on
    record, and comes to the same. What a session copied from another when it was forked was paid
    there, and what was rewound or summed up stays paid.

    Attributes:
        rows: the usage by key. As an instrument it grows by a row for each day, session and model:
            a program that runs for months writes them down and clears it now and then.
        damaged: why sessions of a store could not be read; their usage is missing.

    Example:
        >>> from greenroom import Agent, AgentRuntime, InMemoryStore
        >>> from greenroom.testing import Reply, ScriptedProvider
        >>> import trio
        >>> async def main():
        ...     ledger = Ledger()
        ...     async with AgentRuntime(InMemoryStore(), instruments=[ledger]) as runtime:
        ...         model = ScriptedProvider(Reply("Hi!", usage=Usage(12, 3)))
        ...         await Agent(model, name="Ann").run("Hello", runtime=runtime)
        ...     print(ledger.total.input_tokens, ledger.total.output_tokens)
        >>> trio.run(main)
        12 3
    """

    def __init__(self) -> None:
        self.rows: dict[LedgerKey, Usage] = {}
        self.damaged: tuple[SessionCorruptError, ...] = ()
        self._accounts: dict[str, _Account] = {}

    @property
    def total(self) -> Usage:
        """The sum of all rows."""
        return sum(self.rows.values(), Usage())

    def by(self, *fields: str) -> dict[tuple[object, ...], Usage]:
        """Add up the rows that agree in these fields of their keys, such as "day" and "model".

        Raises:
            AttributeError: there is no such field.
        """
        found: dict[tuple[object, ...], Usage] = {}
        for key, usage in self.rows.items():
            group = tuple(getattr(key, field) for field in fields)
            found[group] = found.get(group, Usage()) + usage
        return found

    def before_agent(self, agent: AgentContext) -> None:
        """Find out who pays for the agent."""
        above = self._accounts.get(agent.parent_session_id or "")
        owner = str(agent.metadata.get(OWNER, ""))
        self._accounts[agent.session_id] = above or _Account(agent.session_id, owner)

    def after_agent(self, agent: AgentContext, end: Exited) -> None:
        """Forget the agent."""
        self._accounts.pop(agent.session_id, None)

    def on_chunk(self, agent: AgentContext, chunk: OutputChunk) -> None:
        """Count a model call that was billed."""
        if isinstance(chunk, UsageReport):
            account = self._accounts.get(agent.session_id) or _Account(agent.session_id, "")
            self._add(
                LedgerKey(
                    utc_now().date(), agent.agent_type, chunk.model, agent.session_id,
                    account.root, account.owner,
                ),
                chunk.usage,
            )  # fmt: skip

    def _add(self, key: LedgerKey, usage: Usage) -> None:
        self.rows[key] = self.rows.get(key, Usage()) + usage

    @classmethod
    async def of_store(
        cls, store: SessionStore, since: date | None = None, *, session_id: str | None = None
    ) -> "Ledger":
        """Add up what the sessions of a store have on record.

        A call without a time of its own, whose reply was thrown away, counts for the day of the
        message before it. A damaged session is left out, and is in `damaged`.

        Args:
            store: the store.
            since: the first day that counts; None for all.
            session_id: count this session and all below it; None for all sessions.

        Raises:
            SessionStorageError: the store can't be read.
        """
        ledger, damaged = cls(), list[SessionCorruptError]()
        listed = await store.list_all()
        sessions = {each.session_id: each for each in listed}
        for id_ in sessions if session_id is None else _list_tree(session_id, listed):
            session = sessions.get(id_)
            if session is None or (since is not None and session.updated_at.date() < since):
                continue
            try:
                await ledger._add_stored(session, _find_root(session, sessions), store, since)
            except SessionNotFoundError:
                continue  # it was deleted since it was listed
            except SessionCorruptError as error:
                damaged.append(error)
        ledger.damaged = tuple(damaged)
        return ledger

    async def _add_stored(
        self,
        session: SessionMetadata,
        root: SessionMetadata,
        store: SessionStore,
        since: date | None,
    ) -> None:
        """Add what one session has on record."""
        owner = str(root.metadata.get(OWNER, ""))
        for call in await read_paid_calls(session.session_id, store=store):
            day = call.at.astimezone(UTC).date()
            if since is None or day >= since:
                key = LedgerKey(
                    day, session.agent_type, call.model, session.session_id, root.session_id, owner
                )
                self._add(key, call.usage)


def _list_tree(session_id: str, listed: Sequence[SessionMetadata]) -> tuple[str, ...]:
    """Return the ids of a session and of all below it."""
    below = descendants(session_id, listed).values()
    return session_id, *(each for children in below for each in children)


def _find_root(
    session: SessionMetadata, sessions: Mapping[str, SessionMetadata]
) -> SessionMetadata:
    seen = {session.session_id}
    while (above := sessions.get(session.parent_session_id or "")) is not None:
        if above.session_id in seen:
            break
        seen.add(above.session_id)
        session = above
    return session

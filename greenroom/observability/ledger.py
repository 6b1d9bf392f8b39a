"""The ledger: what was paid for, by day, agent, model, session, root and owner."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date
from typing import NamedTuple

from greenroom.core import (
    AgentContext,
    Exited,
    Instrument,
    OutputChunk,
    Usage,
    UsageReport,
    utc_now,
)
from greenroom.session import SessionMetadata, SessionStore
from greenroom.session._internal import read_paid_calls

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
    """Adds up the usage of every model call, also of those whose replies were thrown away.

    As an instrument of a runtime it counts from then on; `of_store` counts what sessions have on
    record, and comes to the same. What a session copied from another when it was forked was paid
    there, and what was rewound or summed up stays paid.

    Attributes:
        rows: the usage by key.

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
    async def of_store(cls, store: SessionStore, since: date | None = None) -> "Ledger":
        """Add up what all sessions of a store have on record.

        A call without a time of its own, whose reply was thrown away, counts for the day of the
        message before it.

        Args:
            store: the store.
            since: the first day that counts; None for all.

        Raises:
            SessionCorruptError: a session is damaged.
            SessionStorageError: the store can't be read.
        """
        ledger = cls()
        sessions = {each.session_id: each for each in await store.list_all()}
        for id_, session in sessions.items():
            if since is not None and session.updated_at.date() < since:
                continue
            root = _find_root(session, sessions)
            owner = str(root.metadata.get(OWNER, ""))
            for call in await read_paid_calls(id_, store=store):
                day = call.at.astimezone(UTC).date()
                if since is None or day >= since:
                    agent = session.agent_type
                    key = LedgerKey(day, agent, call.model, id_, root.session_id, owner)
                    ledger._add(key, call.usage)
        return ledger


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

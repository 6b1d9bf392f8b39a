"""Fitting long conversations into a model's window, and memory across sessions.

The window: `context_window` divides it and chooses the messages that fit, by their `importance`;
`compactor` shortens a conversation, and `summary` is what replaces the messages that it removes.

Memory: `memory_protocol` defines the interface, and `agent_memory` is how an agent uses it: a
reminder at the start of a turn, and tools for its model. `sqlite_memory` implements it with
`database` (tables, and one connection in a thread), `rows` (reading and writing entries),
`word_index` and `vectors` (two ways to search; `stems` are of English words), `ranking` (combining
both) and `recall_cache` (the last answers). `postgres_memory` does so with `postgres_rows`, the
same words and the index of a PostgreSQL server. `session_views` shows a session as an episodic and
as a working memory.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)

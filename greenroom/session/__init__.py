"""Conversations that outlive the process.

`agent_session` (`AgentSession`, what users hold) has a description (`description`: who and when), a
conversation (`conversation`, `transcript`) and a journal (`journal`: what of it is stored). What a
history is made of is pure, and touches no file: `entries`, the lines that commit them (`history`), calls
and results in `pairing`, what was left behind in `branches`, what can be kept of damage in `recovery`.
`store` is the protocol behind which sessions are kept: in memory (`in_memory_store`), in files
(`file_store`, `session_folder`) or in a database (`sqlite_*`, loaded when first used).
`past_sessions` is what is done with them by their ids: archiving, deleting, searching.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)

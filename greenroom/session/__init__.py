"""Conversations that outlive the process.

`agent_session` has `AgentSession`, which users hold. It consists of a description (`description`:
who and when), a conversation (`conversation`: what is said, and what of it waits for a commit) and
a journal (`journal`: what of it is stored, and who may write). The parts of a history are pure, and
read no files: its `entries`, their sum (`transcript`), the conversations left behind (`branches`),
the lines that commit entries (`history`), and what can be kept after damage (`salvage`). `store` is
the protocol of a store; they keep sessions in memory (`memory_store`), in files (`file_store`,
`session_folder`) or in a database (`sqlite_store`, `sqlite_database`). `past_sessions` works with
stored sessions by their ids: it reads their end, archives, deletes and searches them, for the
methods of `AgentSession` that do so.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)

"""Conversations that outlive the process.

`agent_session` (`AgentSession`, what users hold) has a description (`description`: who and when), a
conversation (`conversation`: what is said, and what of it waits for a commit) and a journal
(`journal`: what of it is stored, and who may write). What a history is made of is pure, and touches
no file: its `entries`, what they add up to (`transcript`; `branches` for what was left behind), the
lines that commit them (`history`), and what can be kept of damage (`recovery`). `store` is the
protocol behind which sessions are kept: in memory there, in files (`file_store`, `session_folder`),
or in a database (`sqlite_store`, `sqlite_database`, loaded when first used). `past_sessions` is
what is done with them by their ids: reading the end, archiving, deleting, searching.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)

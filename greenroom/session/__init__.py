"""Conversations that outlive the process.

`session` (`AgentSession`, what users hold) is made of `description` and `metadata` (who and when),
`conversation` (the messages), `stored_conversation` (opening, saving and closing them) and `journal`
(what is stored); `durability` says how much of it a power cut may take back, `repair` reports a torn
end. In the room `history` are the entries of a history, its lines as bytes, and what they add up to;
nothing there touches a file. `store` is the protocol behind which stand the rooms `files` and
`sqlite`, the latter loaded when it is first used, and `memory_store`. The room `shelf` is what is done
with sessions by their ids: deleting, archiving, searching. `lost_description` puts a
damaged description together anew. The room `export` writes a session as
Markdown, HTML or JSON, and reads the last of these. `holder` says who has a session when you can't;
`statistics` are figures about all of these.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)

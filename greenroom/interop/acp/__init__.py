"""Editors as the front of an agent: the Agent Client Protocol, version 1.

An editor starts us as a program, and each line on the standard streams is a message of JSON-RPC.
`json_rpc` has both directions of that; `editor_server` the methods that an editor may call, and
`editor_session` one conversation: an agent, whose chunks `updates` turns into what an editor shows
(with `diffs`), and whose questions `questions` puts before the person. `contents` reads what a
person sends, `editor_files` reads and writes files through the editor, `wire` has the forms of
messages that come in, and `parts` what the program gives to a session.
"""

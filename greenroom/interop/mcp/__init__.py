"""Tools of other programs, and ours for them: the Model Context Protocol.

`server` says how a server is reached, and `servers` keeps a connection to each, an agent that a
supervisor starts again. `connection` is one of them: it lists the tools, makes calls and passes on
questions (`question`). `transport`, `stdio` and `http` have the streams that it speaks on, `login`
and `oauth` the login at services that want one, `tool` what becomes of a definition (`definitions`
remembers it), and `result` of a result. `offers` has prompts and resources, `files` reads and
writes files that list servers, and `tool_search` has the two tools that stand for thousands.

The other way round, `serve` offers tools of ours to clients of the protocol: `served` lists them
and takes calls, `served_call` runs one, `form` has what a person at the client is asked, `reply`
what the client gets. `stdio` and `serve_http` have the transports.
"""

"""Other people's protocols: tools in servers elsewhere, sessions over HTTP, agents in editors.

`MCPServers` connects to servers of the Model Context Protocol and has their tools: pass it to an
`Agent`. `serve_mcp` offers tools of ours the other way round. Both are in `mcp`.

`WebServer` offers sessions over HTTP. In `serving`, the `guard` lets requests in, `route_table`
says what there is, and `web_server` puts it together. `A2AServer` offers one agent to other
people's agents, and `remote` drives an agent elsewhere, whoever has made it.

`inspect` makes a solver of an agent, for evaluations with Inspect.

In `acp` an agent is served to an editor, on the lines of its standard streams (`line_reader`).

The protocol of tools is the official SDK's, which the extra `greenroom[mcp]` installs, and a
listening socket is hypercorn's, which comes with `greenroom[serve]`. Each is imported where a
connection is opened, so everything else works without it.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)

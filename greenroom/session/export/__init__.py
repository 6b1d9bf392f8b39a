"""A conversation as a text to read or to carry away, and back: Markdown, HTML, JSON.

`exporter` and `importer` are the doors; all behind them is pure. `content` is what they pass on.
`markdown`, the room `html` and `document` (the JSON, with `unknown` for what newer versions add)
write it. Both kinds of pages see it through `said` (each `call` with its result), `facts`,
`call_input`, `diff`, `fence` and `printed`.
"""

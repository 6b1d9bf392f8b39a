"""A session as a text to read or to carry away, and back: Markdown, HTML, JSON.

`exporter` is the door: `export_session` writes one out with its subagents, `import_session` makes
one of what was written as JSON. All behind it is pure. `content` is a conversation as it is read,
each tool call together with its result; `markdown` and `html` are pages made of that, and
`json_document` is what can be imported again, with what newer versions have added kept in its
place.
"""

from greenroom.export.exporter import export_session, import_session

__all__ = ["export_session", "import_session"]

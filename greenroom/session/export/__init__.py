"""A conversation as a text to read or to carry away, and back: Markdown, HTML, JSON."""

"""A page of HTML taken apart, to see what a browser would make of it."""

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img"}


class Page(HTMLParser):
    """The elements of a page in order, its texts, and whether every element is closed."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.open = []
        self.said = []
        self.strays = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.strays.append(tag)

    def handle_data(self, data):
        if "style" not in self.open:
            self.said.append(data)

    def handle_comment(self, data):
        self.strays.append(data)

    @property
    def text(self):
        return "".join(self.said)

    def all(self, *tags):
        return [attrs for tag, attrs in self.elements if tag in tags]

    @property
    def addresses(self):
        """Everything that an attribute could make a browser fetch or open."""
        names = {"src", "href", "srcset", "action", "data", "poster", "background", "ping", "style"}
        return [
            value for _, attrs in self.elements for name, value in attrs.items() if name in names
        ]

    @property
    def is_whole(self):
        return not self.open and not self.strays

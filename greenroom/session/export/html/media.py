"""Images and documents in a page."""

import re

from greenroom.core import DocumentBlock, ImageBlock
from greenroom.session.export.html.escape import escape
from greenroom.session.export.printed import file_words

_SHOWN = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def render_file(block: ImageBlock | DocumentBlock) -> str:
    """Show an image that the session holds; name any other file, and what only has an address.

    Example:
        >>> render_file(ImageBlock("image/png", url="https://example.com/a.png"))
        '<p class="file">Image, image/png, https://example.com/a.png</p>'
    """
    name = escape(file_words(block))
    is_image = isinstance(block, ImageBlock) and block.media_type in _SHOWN
    if is_image and _BASE64.fullmatch(block.data):
        source = f"data:{block.media_type};base64,{block.data}"
        return f'<figure><img src="{source}" alt="{name}"><figcaption>{name}</figcaption></figure>'
    return f'<p class="file">{name}</p>'

"""Text made harmless: whatever is in it, a page shows it and does nothing else with it."""

import html

from greenroom.session.export.printed import printed


def escape(text: str) -> str:
    """Write text for use between tags, or between the quotes of an attribute.

    Example:
        >>> print(escape('<b> & "c"'))
        &lt;b&gt; &amp; &quot;c&quot;
    """
    return html.escape(printed(text))

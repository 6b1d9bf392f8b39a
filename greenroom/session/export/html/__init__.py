"""A conversation as one HTML page, which needs nothing but itself: no script, no request.

`page` is the frame, `conversation` what was said in it, `tool_call` a call, `media` an image or a
file, `prose` the Markdown of replies, `escape` what makes text harmless, and `style` the looks.
"""

"""Choosing a stored session: `picker` on a screen (`application`, `rows`), `numbered` without one.

`entry` is what a row tells, `choice` which rows there are and which is in hand, `preview` the end of
that conversation. `resume` is the command: it asks which, and goes on with it.
"""

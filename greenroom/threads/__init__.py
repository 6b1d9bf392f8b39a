"""Threads for work that would hold up the event loop: on files, and on large values.

A tool call that never ends keeps its thread for good. So code that reads and writes files has its
own limit, which such calls can't use up: `FileThreads` is that limit, in each run of trio.
"""

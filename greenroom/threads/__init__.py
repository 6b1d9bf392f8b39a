"""Threads for work on files: few of them, and apart from those that others may fill.

A tool's call that never ends keeps its thread for good. So whatever reads and writes files works under a
limit of its own, which such calls can't use up: `FileThreads` is such a limit, in each run of trio.
"""

from greenroom.threads.file_threads import FileThreads as FileThreads

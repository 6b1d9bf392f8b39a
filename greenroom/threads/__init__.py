"""Threads for work on files, with a limit separate from that of other threads.

A tool call that never ends keeps its thread for good. So code that reads and writes files has its
own limit, which such calls can't use up: `FileThreads` is that limit, in each run of trio.
"""

from greenroom.threads.file_threads import FileThreads as FileThreads

"""Durable and atomic files, and locks on folders: synchronous, without trio, usable alone.

`durable` has the system calls on which durability rests: appending, replacing and removing so that
what has returned survives a crash and a loss of power; and a lock that gives a folder one writer
among all processes, which the kernel takes away when that one dies. `real_file` reads and replaces
files by their real paths, through no link. `sqlite`, loaded on first use, opens and creates durable
SQLite databases. `file_lookup` and `file_digest`, loaded on first use as well, look names up once
(where links lead, what lies in folders, which file a program is), and tell whether files are still
the same. Every function of these blocks: call it in a thread. `name_patterns` matches names and
paths with patterns such as `src/**/*.py`, and looks at no disk; nor does `text_encoding`, which
knows byte order marks.
"""

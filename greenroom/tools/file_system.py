"""`FileSystem`: a resource through which Read, Write and Edit reach files."""

from pathlib import Path
from typing import ClassVar


class FileSystem:
    """Holds texts of files in place of the disk: derive a class, and write either method or both.

    Insert an instance into the resources of a runtime or an agent. `Read`, `Write` and `Edit` ask
    it about each file that is there in plain UTF-8 and has at most 10 MB, once it is known that the
    agent may reach it; other tools and commands see the disk.

    Example:
        >>> import trio
        >>> from pathlib import Path
        >>> class Unsaved(FileSystem):
        ...     def __init__(self, texts):
        ...         self.texts = texts
        ...
        ...     async def read(self, path, size):
        ...         return self.texts.get(path)
        >>> trio.run(Unsaved({Path("/a.py"): b"x = 1"}).read, Path("/a.py"), 0)
        b'x = 1'
    """

    resource_type: ClassVar[type]
    """The class under which a `ResourceMap` holds every such resource: this one."""

    async def read(self, path: Path, size: int) -> bytes | None:
        """Return the content of a file, or None if the disk has it.

        Args:
            path: the file, an absolute path without links.
            size: how many bytes the disk has of it.

        Raises:
            ToolError: it can't be read at all.
        """
        return None

    async def write(self, path: Path, content: bytes) -> bool:
        """Write a file, and its folders where they are missing; False if the disk has to.

        Raises:
            ToolError: it can't be written at all.
        """
        return False


FileSystem.resource_type = FileSystem

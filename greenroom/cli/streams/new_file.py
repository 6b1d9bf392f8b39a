"""A file that is there as a whole, or not at all."""

import contextlib
import os
import tempfile

from greenroom.core import ConfigurationError


class NewFile:
    """Writes beside the place where the file will be, and puts it there once it is finished.

    Every method blocks. The file is for this user alone.
    """

    def __init__(self, path: str, force: bool = False) -> None:
        """Begin.

        Args:
            path: where the file will be.
            force: whether it may take the place of another.

        Raises:
            ConfigurationError: there is one, and it may not.
            OSError: the folder can't be written.
        """
        self._path = os.path.abspath(path)
        self._force = force
        if not force and os.path.lexists(path):
            raise self._taken()
        folder, name = os.path.split(self._path)
        descriptor, self._temporary = tempfile.mkstemp(prefix=f".{name[:100]}.", dir=folder)
        self._file = os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", newline="")

    def write(self, text: str) -> None:
        """Add a piece.

        Raises:
            OSError: the disk refused.
        """
        self._file.write(text)

    def finish(self) -> None:
        """Put the file in its place, and see that it is on the disk.

        Raises:
            ConfigurationError: another one has come to be there meanwhile.
            OSError: the disk refused.
        """
        self._file.flush()
        os.fsync(self._file.fileno())
        if self._force:
            os.replace(self._temporary, self._path)
            return
        try:
            os.link(self._temporary, self._path)  # which fails where there is one by now
        except FileExistsError:
            raise self._taken() from None
        except OSError:  # a file system without links
            os.replace(self._temporary, self._path)

    def close(self) -> None:
        """Leave nothing beside the file.

        Raises:
            OSError: what was left to be written could not be.
        """
        try:
            self._file.close()
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary)

    def _taken(self) -> ConfigurationError:
        return ConfigurationError(f"{self._path} exists", hint="--force replaces it")

"""A folder that a case of a file is judged in, furnished as the case says."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from greenroom.core import ConfigurationError


class Setup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What there is to be in a temporary folder.

    Attributes:
        dirs: folders.
        files: files, which are empty.
        symlinks: where links by these names lead.
    """

    dirs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    symlinks: Mapping[str, str] = {}


@contextmanager
def scene(setup: Setup) -> Iterator[str]:
    """Make a temporary folder with all of this in it, until the block is left.

    Raises:
        ConfigurationError: something would stand outside of it, or can't be made.
    """
    with TemporaryDirectory(prefix="greenroom-") as name:
        root = Path(os.path.realpath(name))
        try:
            for each in setup.dirs:
                _place(root, each).mkdir(parents=True, exist_ok=True)
            for each in setup.files:
                _place(root, each).touch()
            for each, target in setup.symlinks.items():
                _place(root, each).symlink_to(target)
        except OSError as error:
            raise ConfigurationError(f"setup: {error.filename}: {error.strerror}") from error
        yield str(root)


def _place(root: Path, name: str) -> Path:
    """Return where this belongs; a file of cases may come from anybody, so it stays in the folder."""
    path = root / name
    if not path.parent.resolve().is_relative_to(root) or ".." in Path(name).parts:
        raise ConfigurationError(f"setup: {name!r} is outside of the temporary folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path

"""The files that a pattern in a command stands for, as bash lists them."""

import os
import re
from collections.abc import Sequence

from greenroom.fs import file_lookup
from greenroom.fs._internal import read_pattern
from greenroom.shell.script import NotPlainError

MAX_NAMES = 4096  # that a pattern may stand for
_ESCAPED = re.compile(r"\[([*?\[])\]")


def list_names(pattern: str, folder: str, lookup: file_lookup.FileLookup) -> tuple[str, ...]:
    """List the files that match a pattern, as written from a folder; empty if none does.

    In the pattern, literal special characters are in brackets: `[*]`.

    Raises:
        NotPlainError: there are too many, bash may list others, or a name is not valid Unicode.

    Example:
        >>> lookup = file_lookup.FileLookup()
        >>> list_names("/etc/pass[w]?", "/", lookup), list_names("/etc/no-such-*", "/", lookup)
        (('/etc/passwd',), ())
    """
    found = [""]
    names = pattern.split("/")
    for depth, name in enumerate(names):
        end = "/" if depth + 1 < len(names) else ""
        plain = _ESCAPED.sub(r"\1", name)
        if read_pattern(_ESCAPED.sub("_", name)).plain:
            found = [f"{each}{plain}{end}" for each in found]
            continue
        wanted = read_pattern(name, only_sets=True)
        if name.startswith(".") and (wanted.fits(".") or wanted.fits("..")):
            raise NotPlainError(f"a pattern that may match . and .., {plain}", 0)
        hidden = name.startswith(".")
        found = [
            f"{each}{entry}{end}"
            for each in found
            for entry in _list_folder(lookup, os.path.join(folder, each or "."))
            if hidden is entry.startswith(".") and wanted.fits(entry)
        ]
        if len(found) > MAX_NAMES:
            raise NotPlainError(f"a pattern of more than {MAX_NAMES} files, {pattern}", 0)
    # With a slash at its end, a name has to be that of a folder.
    found = [each for each in found if os.path.lexists(os.path.join(folder, each))]
    try:
        "".join(found).encode()
    except UnicodeEncodeError as error:
        raise NotPlainError(f"a pattern of names that are not valid text, {pattern}", 0) from error
    return tuple(sorted(found))


def _list_folder(lookup: file_lookup.FileLookup, folder: str) -> Sequence[str]:
    try:
        return lookup.list_folder(folder)
    except file_lookup.TooManyNamesError as error:
        raise NotPlainError(f"patterns of {error}", 0) from error

"""The keys of vendors: in a variable of the environment, or in a file that a variable names.

Every process that this one starts with its environment has the keys as well, and on Linux other
programs of the same user can read the environment of most processes. A file keeps them out of both.
"""

import os
import shlex
import stat
from collections.abc import Iterable, Mapping

from greenroom.core import ConfigurationError

FILE_SUFFIX = "_FILE"
"""What is added to a variable's name where it names a file, as in `OPENAI_API_KEY_FILE`."""

_LONGEST = 16_384
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def find_key_variable(env: Mapping[str, str], names: Iterable[str]) -> str:
    """Return the first variable that is set, of these names and those with `_FILE`, or "".

    Example:
        >>> find_key_variable({"XAI_API_KEY_FILE": "/run/key"}, ["OPENAI_API_KEY", "XAI_API_KEY"])
        'XAI_API_KEY_FILE'
    """
    both = (each for name in names for each in (name, name + FILE_SUFFIX))
    return next((each for each in both if env.get(each, "").strip()), "")


def read_key(env: Mapping[str, str], *names: str) -> str:
    r"""Return the key in the first of these variables, or in the file that it names, or "".

    Args:
        env: where to look.
        names: the variables, the one that counts most first. If both `NAME` and `NAME_FILE` are
            set, `NAME` counts.

    Raises:
        ConfigurationError: the file can't be read, is not a text file, or is open to other users.

    Example:
        >>> read_key({"OPENAI_API_KEY": " sk-1\n"}, "OPENAI_API_KEY")
        'sk-1'
    """
    variable = find_key_variable(env, names)
    value = env.get(variable, "").strip()
    return value if variable in names else _read_file(value, variable) if variable else ""


def _read_file(name: str, variable: str) -> str:
    path = os.path.expanduser(name)
    if not os.path.isabs(path):
        raise _refuse(variable, path, "is not an absolute path", f"set {variable} to a full path")
    try:
        # Nothing waits for the other end of a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            content = file.read(_LONGEST + 1) if stat.S_ISREG(status.st_mode) else b""
    except OSError as error:
        why = f"can't be read: {error.strerror}"
        raise _refuse(variable, path, why, "correct the path, or write the key there") from error
    if not stat.S_ISREG(status.st_mode):
        raise _refuse(variable, path, "is not a file", "name a file with the key alone")
    if status.st_mode & _OF_OTHERS:
        mode = f"is open to other users (mode {stat.S_IMODE(status.st_mode):04o})"
        raise _refuse(variable, path, mode, f"chmod 600 {shlex.quote(path)}")
    key = content.decode("ascii", "replace").strip() if len(content) <= _LONGEST else ""
    if not key:
        raise _refuse(variable, path, "does not hold a key", "write the key there, and no more")
    return key


def _refuse(variable: str, path: str, why: str, hint: str) -> ConfigurationError:
    return ConfigurationError(f"{path}, which {variable} names, {why}", hint=hint)

"""Stop being root for good, and become a command.

This file runs as a program of its own, with the standard library alone, where all that needs root
has been done:

    python -I -S become.py USER GROUP FOLDER COMMAND [ARGUMENT ...]

FOLDER is where the command starts; empty for where we are. `--run FILE ARGUMENT` as the command is
a Python file whose `main` is called here: it is loaded before, since a user may not be allowed to
read what root has installed for itself.

What fails ends it with a line on standard output and `FAILED`; the command is not run then.
"""

import ctypes
import importlib.util
import os
import sys
from types import ModuleType

FAILED = 126
COMMAND_NOT_FOUND = 127

_SET_DEATH_SIGNAL, _GET_DEATH_SIGNAL = 1, 2
_CAPABILITIES_VERSION = 0x20080522


def loaded(path: str) -> ModuleType:
    """Load a Python file."""
    found = importlib.util.spec_from_file_location("__loaded__", path)
    if found is None or found.loader is None:
        raise OSError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def become(user: int, group: int) -> None:
    """Become a user with one group, and die with our parent as before."""
    libc = ctypes.CDLL(None, use_errno=True)
    death_signal, parent = ctypes.c_int(), os.getppid()
    libc.prctl(_GET_DEATH_SIGNAL, ctypes.byref(death_signal), 0, 0, 0)
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    # Those that the next program would inherit are not gone with it.
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0), (ctypes.c_uint32 * 6)()
    libc.capset(header, none)
    # To become another has undone it; the parent may have died in between.
    libc.prctl(_SET_DEATH_SIGNAL, death_signal.value, 0, 0, 0)
    if death_signal.value and os.getppid() != parent:
        os._exit(FAILED)
    try:
        os.setresuid(0, 0, 0)
    except PermissionError:
        return
    raise OSError(f"user {user} could become root again")


def clean(environment: "os._Environ[bytes]") -> dict[bytes, bytes]:
    """Drop what the dynamic linker reads: this Python may need it, the command must not have it."""
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith((b"LD_", b"DYLD_"))
    }


def main(user: str, group: str, folder: str, *command: str) -> None:
    """Become the command as that user."""
    try:
        module = loaded(command[1]) if command[0] == "--run" else None
        become(int(user), int(group))
        os.chdir(folder or ".")
    except OSError as error:
        os.write(1, f"the sandbox could not be set up: {error}\n".encode())
        os._exit(FAILED)
    if module:
        module.main(*command[2:])
        return
    try:
        os.execvpe(command[0], command, clean(os.environb))  # noqa: S606  (that is its purpose)
    except OSError as error:
        os.write(1, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(COMMAND_NOT_FOUND)


if __name__ == "__main__":
    main(*sys.argv[1:])

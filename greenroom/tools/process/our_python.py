"""Our own Python, as a command for a process of ours."""

import os
import sys


def our_python(*arguments: str) -> list[str]:
    """Return the command that runs this very Python behind a launcher.

    The launcher keeps what the dynamic linker reads from commands; but our own Python may need it.

    Example:
        >>> our_python("-c", "pass")[-2:]
        ['-c', 'pass']
    """
    linker = [f"{k}={v}" for k, v in os.environ.items() if k.startswith(("LD_", "DYLD_"))]
    return [*(["env", *linker] if linker else []), sys.executable, *arguments]

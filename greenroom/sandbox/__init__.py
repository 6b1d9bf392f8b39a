r"""The sandbox: limits that the system enforces on a command, and processes that leave none behind.

A `policy` says what a command may do, and `resolved_policy` what that means in one workspace.
`detection` finds out which parts hold on this machine, by running `probe` under the policy;
`report` describes the result, and `confinement` holds one command to the policy. The means are
`wrappers` (bubblewrap, Seatbelt) and Landlock for files and network, `seccomp` for system calls,
and `cgroup` for resources. `enforce` is the small program that applies them and becomes the
command; `temporary_files` makes and removes what a command needs on disk. `process` runs a command
and ends it; `process_tree` is the launcher in front of each command, which finds and kills
everything that the command has started.

The package knows nothing of agents, and can run any command.

Example:
    >>> import os, sys
    >>> from pathlib import Path
    >>> import trio
    >>> from greenroom.core import Workspace
    >>> from greenroom.sandbox._internal import Sandbox, confine, run_contained
    >>> async def run(*command: str) -> bytes:
    ...     output = []
    ...     async with confine(Sandbox("read-only"), Workspace(Path.cwd())) as held:
    ...         ended = await run_contained(
    ...             [*held.prefix, *command],
    ...             cwd=Path.cwd(),
    ...             environment={**os.environ, **held.environment},
    ...             on_output=output.append,
    ...             timeout=30,
    ...         )
    ...     return ended.code, b"".join(output)
    >>> trio.run(run, "echo", "hello")
    (0, b'hello\n')
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)

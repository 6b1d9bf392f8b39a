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
    >>> from greenroom.sandbox import Sandbox, confine, run_contained
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

from greenroom.sandbox.confinement import Confinement as Confinement
from greenroom.sandbox.detection import (
    confine as confine,
    examine_sandbox as examine_sandbox,
    list_python_files as list_python_files,
)
from greenroom.sandbox.policy import Sandbox as Sandbox, SandboxLimits as SandboxLimits
from greenroom.sandbox.process import (
    Cleanup as Cleanup,
    ContainedProcess as ContainedProcess,
    Exit as Exit,
    ProcessReport as ProcessReport,
    clean_environment as clean_environment,
    no_cleanup as no_cleanup,
    our_python as our_python,
    run_contained as run_contained,
    signal_name as signal_name,
)
from greenroom.sandbox.process_tree import NOTE_FD as NOTE_FD, become_subreaper as become_subreaper
from greenroom.sandbox.report import (
    check_required as check_required,
    describe_sandbox as describe_sandbox,
)

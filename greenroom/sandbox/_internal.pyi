from greenroom.sandbox.detection import (
    confine as confine,
    examine_sandbox as examine_sandbox,
    list_python_files as list_python_files,
)
from greenroom.sandbox.policy import ProcessLimits as ProcessLimits, Sandbox as Sandbox
from greenroom.sandbox.process import (
    Cleanup as Cleanup,
    Confinement as Confinement,
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
    SandboxUnavailableError as SandboxUnavailableError,
    check_required as check_required,
    describe_sandbox as describe_sandbox,
)

"""The command's own environment and memory, which hold the keys: closed to what it runs."""

import ctypes
import json
import resource
import subprocess
import sys

import pytest

from tests.cli.conftest import COMMAND

PR_GET_DUMPABLE = 3

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

# Root may look into every process, so it gives that up; then the launcher becomes the command.
START = """
import ctypes, os, sys
PR_CAPBSET_DROP = 24
for capability in (19, 21, 38):  # CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""

# Climb to the first process, and say what can be read of each on the way.
CLIMB = """
pid=$$
while [ "$pid" -gt 1 ]; do
    for part in environ maps auxv; do
        content=$(tr '\\0' '\\n' < /proc/$pid/$part) 2> /dev/null
        case $content in *sk-of-the-person*) echo "read it in $part";; esac
    done
    name=$(tr '\\0' ' ' < /proc/$pid/cmdline)
    case $name in *-m\\ greenroom*) echo "passed $name"; ls -l /proc/$pid/fd/0; break;; esac
    pid=$(sed 's/.*) . \\([0-9]*\\).*/\\1/' /proc/$pid/stat)
done
cat /proc/self/environ | tr '\\0' '\\n' | grep -c '^HOME='
ulimit -S -c
ulimit -S -c $(ulimit -H -c) && echo raised
"""


def test_no_command_reads_the_keys_in_the_environment_of_the_program(project, env):
    (project / "climb.sh").write_text(CLIMB)
    words = ("-p", "run bash climb.sh", "--allow", "Bash", "--output-format", "json")
    done = subprocess.run(
        [sys.executable, "-c", START, *COMMAND, *words, "--model", "offline:"],
        cwd=project,
        env={**env, "ANTHROPIC_API_KEY": "sk-of-the-person"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)["result"]
    assert "passed " in answer
    assert "read it" not in answer
    assert "Permission denied" in answer
    # What it runs is a process like any other.
    assert "\n1\n0\nraised" in answer


def test_a_program_that_calls_the_command_keeps_its_core_dumps_and_profilers(run):
    def describe() -> tuple[int, tuple[int, int]]:
        is_dumpable = ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)
        return is_dumpable, resource.getrlimit(resource.RLIMIT_CORE)

    before = describe()
    assert run("-p", "read README.md").code == 0
    assert describe() == before

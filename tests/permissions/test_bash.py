"""What real bash runs, held against what was allowed: stub programs log their names and words."""

import os
import random
import shutil
import subprocess

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule

BASH = shutil.which("bash") or "/bin/bash"
PROGRAMS = ("good", "evil", "env", "timeout", "nice", "xargs", "find", "git", "sort", "cat", "rm")
ALLOWED = ("good", "cat", "git status", "echo", "true", "sort", "xargs", "find", "cd", "test")

# Ways to hide a command; {} is the command.
TECHNIQUES = (
    *("{}", "good; {}", "good && {}", "good || {}", "good | {}", "good & {}", "good\n{}"),
    *("( {} )", "{{ {}; }}", "! {}", "time {}", "if {}; then good; fi", "if good; then {}; fi"),
    *("for i in 1; do {}; done", "for i in $({}); do good; done", "while {}; do break; done"),
    *("case a in a) {};; esac", "good $({})", "good `{}`", 'good "$({})"', "good <({})"),
    *("good ${{x:-$({})}}", 'good "${{x:-`{}`}}"', "good $(( $({}) + 1 ))", "good <<E\n$({})\nE"),
    *(
        "good <<'E'\n$({})\nE",
        "good <<E\ntext\nE\n{}",
        "good #\\\n{}",
        "good # x\n{}",
        "f() {{ {}; }}; f",
    ),
    *("X=1 {}", "X=$({}) good", "eval '{}'", "bash -c '{}'", "env {}", "timeout 5 {}", "nice {}"),
    *("echo a | xargs {}", "find . -maxdepth 0 -exec {} \\;", "command {}", "exec {}", "\\{}"),
    *("''{}", "good '{}'", 'good "{}"', "good \\; {}", "good $'a\\'b; {}'", 'good "a\\"; {}"'),
    *("good ; #\n {}", "good $((1)) <<1\n{}\n1", "cat <<A <<B\n{}\nA\n$({})\nB", "coproc {}"),
    *("[[ -n $({}) ]]", "(( x[$({})] ))", "a=($({}))", "test -v 'a[$({})]'", "trap '{}' EXIT"),
    *("good {{a,b}}; {}", "{{good,a}}; {}", "$(true) {}", "${{NOTHING}} {}", "x={}; $x", "$'{}'"),
    *("for x in 'a[$({})]'; do echo $((x)); done", "good \\\n{}", "good &&\n{}", "good |& {}"),
)
COMMANDS = ("evil", "good a", "git status", "git push", "rm x", "cat /dev/null", "e'vi'l", "ev\\il")


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stubs")
    for name in PROGRAMS:
        real = {"env": "/usr/bin/env", "cat": "/bin/cat"}.get(name) or shutil.which(name)
        runs = name in ("env", "timeout", "nice", "xargs", "find") and real
        last = f'exec {real} "$@"' if runs else "exit 0"
        stub = folder / name
        words = "${*//$'\\n'/ }"
        stub.write_text(f'#!{BASH}\nwords="{words}"\necho "{name} $words" >> "$LOG"\n{last}\n')
        stub.chmod(0o755)
    (folder / "bash").symlink_to(BASH)
    return folder


@pytest.fixture(scope="module")
def manager():
    return PermissionManager([PermissionRule.allow_command(*ALLOWED)])


def composed(seed):
    choose = random.Random(seed)
    command = choose.choice(COMMANDS)
    for _ in range(choose.randint(1, 3)):
        command = choose.choice(TECHNIQUES).format(command, command)
    return command


def ran(command, stubs, folder):
    """Run a command with nothing but the stubs, and tell what they logged."""
    log = folder / "log"
    log.write_text("")
    environment = {"PATH": str(stubs), "LOG": str(log), "HOME": str(folder)}
    subprocess.run(
        [BASH, "--noprofile", "--norc", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    return log.read_text().splitlines()


def test_bash_runs_nothing_else_than_what_was_allowed(stubs, manager, tmp_path):
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(tmp_path))
    seeds = range(int(os.environ.get("GREENROOM_BASH_CASES", "1500")))
    commands = dict.fromkeys(composed(seed) for seed in seeds)
    wrappers = ("env ", "timeout ", "nice ")
    judged = 0
    for command in commands:
        if manager.check("Bash", {"command": command}, context) is not RuleDecision.ALLOW:
            continue
        judged += 1
        for line in ran(command, stubs, tmp_path):
            allowed = any(f"{line} ".startswith(f"{each} ") for each in ALLOWED)
            assert allowed or line.startswith(wrappers), (command, line)
    assert judged > 50
    assert set(os.listdir(tmp_path)) == {"log"}

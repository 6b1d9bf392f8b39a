"""Published bypasses, a test for each technique; its name says where it was found.

`test_published_bypasses.py` has those of arithmetic, options, scripts and bounds, `test_lineage.py`
those of subagents, `test_digest.py` those between asking and running.
"""

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher

ALLOW, DENY, ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK
CONTEXT = AgentContext(session_id="s", agent_type="a", workspace=Workspace("/srv/project"))
MANAGER = PermissionManager(
    [
        PermissionRule.allow_command(
            "git status", "echo", "cd", "ls", "cat", "npm test", "timeout"
        ),
        PermissionRule.deny_command("rm -rf", "git push"),
    ]
)


def decide(command, manager=MANAGER, tool="Bash", key="command", **more):
    return manager.check(tool, {key: command, **more}, CONTEXT)


@pytest.mark.parametrize("joined", [" && ", " ; ", " | ", " || ", " & ", "\n", ";", "|&", "&&\n"])
def test_chaining_as_in_claude_code_94314(joined):
    assert decide(f"cd src{joined}rm -rf x") is DENY
    assert decide(f"npm test{joined}wget x") is ASK
    assert decide(f"npm test{joined}ls") is ALLOW


def test_line_continuation_as_in_claude_code_2_1_6():
    assert decide("git status \\\n; rm -rf x") is DENY
    assert decide("r\\\nm -rf x") is DENY
    assert decide("rm \\\n -r\\\nf x") is DENY
    assert decide("git \\\n  status") is ALLOW


def test_a_comment_before_a_backslash_as_in_mvdan_sh_457():
    assert decide("ls #\\\nrm -rf x") is DENY
    assert decide("ls # a\\\nwget x") is ASK
    assert decide("ls # rm -rf x\\") is ALLOW


@pytest.mark.parametrize(
    "hidden",
    [
        *("$({})", "`{}`", '"$({})"', "<({})", "${{x:-$({})}}", '"${{x:-`{}`}}"', "<<E\n$({})\nE"),
        "$(ls $({}))",
    ],
)  # fmt: skip
def test_substitutions_as_in_claude_code_39601_and_qwen_code_3048(hidden):
    assert decide(f"cat {hidden.format('rm -rf x')}") is DENY
    assert decide(f"cat {hidden.format('wget x')}") is ASK
    assert decide(f"cat {hidden.format('git status')}") is ALLOW


@pytest.mark.parametrize(
    "command",
    [
        *("export PATH=/tmp:$PATH; git status", "typeset PAGER=x; git status"),
        "declare -x A=1; ls",
        *("FOO=bar; git status", "FOO=bar git status", "git() { x; }; git status"),
        "alias ls=x; ls",
        *("GIT_PAGER=x git status", "LD_PRELOAD=./x ls", "read PATH; ls"),
        "for PATH in /tmp; do ls; done",
        *("hash -p /tmp/x ls; ls", "source ./x; ls", "trap x DEBUG; ls", "PROMPT_COMMAND=x ls"),
    ],
)  # fmt: skip
def test_variables_and_builtins_as_in_cursor_cve_2026_22708(command):
    assert decide(command) is ASK


@pytest.mark.parametrize(
    "wrapper",
    [
        *("env", "sudo", "watch", "ionice", "setsid", "flock l", "time", "busybox", "timeout 5"),
        "nice",
        *("xargs", "strace -f", "doas", "chroot /", "unshare -r", "nsenter -t 1 -m", "stdbuf -o0"),
        "npx",
        *("docker exec c", "ssh host", "uv run", "frobnicate", "./wrap.sh --"),
        "env A=1 nice timeout 5",
    ],
)  # fmt: skip
def test_wrappers_as_in_claude_code_92542(wrapper):
    assert decide(f"{wrapper} rm -rf x") in (
        (ASK, DENY) if "frob" in wrapper or "/" in wrapper else (DENY,)
    )
    assert decide(f"{wrapper} shred x") is ASK


def test_an_allowed_unknown_wrapper_as_in_claude_code_92542():
    manager = PermissionManager(
        [PermissionRule.allow_command("frobnicate"), PermissionRule.deny_command("rm -rf")]
    )
    assert decide("frobnicate --verbose rm -rf x", manager) is ASK
    assert decide("frobnicate --verbose rm x", manager) is ALLOW


@pytest.mark.parametrize(
    "command",
    [
        *("ls > out", "ls >> out", "ls >| out", "ls &> out", "ls 3> out", "ls && ls > out"),
        "! ls > out",
        *("{ ls; } > out", "cat <<E > out\nE", "ls > $(echo x)", "ls <> out", "(ls) 2> out"),
        "> out ls",
    ],
)  # fmt: skip
def test_redirections_as_in_opencode_32628_and_gemini_cli_16454(command):
    assert decide(command) is ASK
    assert decide(f"{command.replace('ls', 'rm -rf x').replace('cat', 'rm -rf x')}") is DENY


@pytest.mark.parametrize(
    "command", ["--", "", " ", "\n", "#", "# ls", ";", "( )", "{ }", "$", "--;--"]
)
def test_nothing_to_check_is_not_allowed_as_in_opencode_39931(command):
    assert decide(command) is not ALLOW
    everything = PermissionManager([PermissionRule.allow_command("ls")])
    assert decide(command, everything) is not ALLOW


@pytest.mark.parametrize(
    "command",
    [
        *("<<E cat\nx\nE\nrm -rf x", "cat <<E; rm -rf x\nx\nE"),
        "cat <<A <<B\nx\nA\n$(rm -rf x)\nB",
        *("<<< x cat; rm -rf x", "cat <<-E\n\t`rm -rf x`\n\tE", "time -p rm -rf x"),
        *('"${X:=`rm -rf x`}"', "echo `echo \\`rm -rf x\\``", "{rm,-rf,/}"),
        *("case a in a) ;& b) rm -rf x;; esac", "ls {a}; rm -rf x"),
    ],
)  # fmt: skip
def test_blind_spots_of_parsers_as_in_tree_sitter_bash_305_and_346(command):
    assert decide(command) is DENY


@pytest.mark.parametrize(
    "shell", ["bash -lc", "sh -c", "bash -ec", "/bin/bash -c", "zsh -c", "eval"]
)
def test_the_inner_command_counts_as_in_codex_10920_and_goclaw_1204(shell):
    assert decide(f"{shell} 'git status && rm -rf x'") is DENY
    assert decide(f"{shell} 'git status'") is ASK


def test_a_folder_before_a_relative_path_as_in_claude_code_2_1_98():
    manager = PermissionManager(
        [
            PermissionRule.allow_command("cd", "cat", "git status"),
            PermissionRule.deny_path("secrets/**"),
        ]
    )
    assert decide("cd secrets && cat key", manager) is DENY
    assert decide("cd src && cat ../secrets/key", manager) is DENY
    assert decide("cd src && cat key", manager) is ALLOW
    assert decide("git -C /tmp/evil status", manager) is ASK


@pytest.mark.parametrize(
    "path",
    [
        *("secrets/key", "secrets/../secrets/key", "src/../secrets/key", "./secrets//key"),
        "secrets/",
        *("SECRETS/key", "/srv/project/secrets/key", "//srv/project/secrets/key", "secrets/."),
        "Secrets",
    ],
)  # fmt: skip
def test_spellings_of_paths_as_in_cve_2026_25724_and_cve_2025_59944(path):
    manager = PermissionManager(
        [PermissionRule.allow_category("read"), PermissionRule.deny_path("secrets/**")]
    )
    for tool, key in (("Read", "file_path"), ("Grep", "path"), ("Glob", "path")):
        assert decide(path, manager, tool, key) is DENY


def test_patterns_of_search_tools_as_in_claude_code_45200():
    manager = PermissionManager(
        [PermissionRule.allow_path("src/**"), PermissionRule.deny_path("secrets/**", "~/.ssh/**")]
    )
    for tool, key in (("Glob", "pattern"), ("Grep", "glob")):
        for pattern in (
            "secrets/*",
            "secrets/**/key",
            "secrets/key",
            "~/.ssh/*",
            "src/../secrets/*",
        ):
            assert decide(pattern, manager, tool, key) is DENY
        for pattern in ("*", "**/*.py", "lib/*.py", "/etc/*", "/*", "s*/x", "{src,lib}/*"):
            assert decide(pattern, manager, tool, key) is ASK
        for pattern in ("src/*.py", "src/**/*.{py,pyi}", "src/a/b*"):
            assert decide(pattern, manager, tool, key) is ALLOW
    assert decide("*.py", manager, "Glob", "pattern", path="src") is ALLOW
    assert decide("../secrets/*", manager, "Glob", "pattern", path="src") is DENY


def test_a_path_s_beginning_is_no_folder_as_in_cve_2025_54794():
    manager = PermissionManager([PermissionRule.allow_path("src/**")])
    assert decide("src/a", manager, "Read", "file_path") is ALLOW
    for path in ("src-other/a", "srcx", "src/../a", "other/src/a", "/src/a"):
        assert decide(path, manager, "Read", "file_path") is ASK


def test_links_as_in_cve_2026_39861_and_claude_code_2_1_69(tmp_path):
    (tmp_path / "secrets").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/link").symlink_to("../secrets")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("secrets/key")
    (tmp_path / "loop").symlink_to("loop")
    manager = PermissionManager(
        [
            PermissionRule.allow_category("read", "write"),
            PermissionRule.allow_command("cat"),
            PermissionRule.deny_path("secrets/**"),
        ]
    )
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(tmp_path))
    for path in ("a", "b", "docs/link/key", "docs/link/new", "docs/link/../secrets/x", "docs/link"):
        assert manager.check("Read", {"file_path": path}, context) is DENY
        assert manager.check("Write", {"file_path": path, "content": ""}, context) is DENY
        assert manager.check("Bash", {"command": f"cat {path}"}, context) is DENY
    assert manager.check("Read", {"file_path": "loop"}, context) is ALLOW
    allowed = PermissionManager([PermissionRule.allow_path("docs/**")])
    assert allowed.check("Read", {"file_path": "docs/link/key"}, context) is ASK


def test_the_model_s_own_word_counts_for_nothing_as_in_cline_12020():
    told = {
        "requires_approval": False,
        "safe": True,
        "description": "lists files",
        "approved": True,
    }
    assert decide("wget x", **told) is ASK
    assert decide("rm -rf x", **told) is DENY


@pytest.mark.parametrize(
    "sign", ["\x1b[8m", "\r", "\u202e", "\u200b", "\u2066", "\x00", "\x7f", "\u2028", "\ufeff"]
)
def test_what_would_disguise_a_prompt_is_asked_about_as_in_openclaw_43687(sign):
    assert decide(f"git status {sign}") is ASK
    assert decide(f"git status{sign}; rm -rf x") is DENY


@pytest.mark.parametrize("name", ["toString", "__class__", "constructor", "__proto__", "None", "*"])
def test_a_rule_s_name_means_nothing_as_in_claude_code_2_1_97(name):
    rule = PermissionRule(decision=DENY, matcher=RuleMatcher(command_prefix=("ls",)), id=name)
    other = PermissionRule.deny_command("cat")
    manager = PermissionManager([PermissionRule.allow_tool("Bash"), rule, other])
    assert decide("ls", manager) is DENY
    assert decide("cat x", manager) is DENY


@pytest.mark.parametrize(
    "path",
    [
        *("/proc/self/cwd/", "/proc/$$/cwd/", "//proc//thread-self/./cwd//", "/dev/fd/../cwd/"),
        *("/proc/self/root/proc/self/cwd/", "/proc/self/task/1/cwd/", "/proc/self/../self/cwd/"),
        *("../../proc/self/cwd/", "/srv/../dev/fd/../cwd/", "src/../../../proc/self/cwd/"),
        "/proc/self/root" + str(CONTEXT.workspace.root) + "/",
    ],
)
def test_a_folder_of_a_process_is_the_command_s_as_in_cve_2026_25724(path):
    rules = [
        PermissionRule.allow_command("cat", "cd"),
        PermissionRule(decision=DENY, matcher=RuleMatcher(path=("secrets/**",))),
    ]
    for command in (f"cat {path}secrets/a", f"cd {path} && cat secrets/a"):
        assert decide(command, PermissionManager(rules)) is DENY
    assert (
        decide("cat /proc/cpuinfo /proc/self/status /dev/fd/0", PermissionManager(rules)) is ALLOW
    )


def test_an_operator_s_question_stands_as_in_claude_code_2_1_74():
    ask = PermissionRule(decision=ASK, matcher=RuleMatcher(command_prefix=("ls",)), final=True)
    allow = PermissionRule(decision=ALLOW, matcher=RuleMatcher(all=True), scope="user", priority=99)
    assert decide("ls", PermissionManager([allow, ask])) is ASK


@pytest.mark.parametrize(
    "command",
    [
        *("bash -c ls", "python -c 1", "python3", "node -e 1", "sudo ls", "xargs ls"),
        "find . -delete",
        *("eval ls", "curl x", "rm x", "git", "ssh h ls", "env A=1 ls", "awk 1", "docker run x"),
        "FOO=1 wget",
    ],
)  # fmt: skip
def test_always_never_saves_an_interpreter_as_in_openworker_29_and_goclaw_1204(command):
    for proposed in MANAGER.explain("Bash", {"command": command}, CONTEXT).remembers:
        assert not proposed.matcher.command_prefix


@pytest.mark.parametrize(
    "command",
    [
        *("ls src/*.ts", "cat a 2>&1", "cat a 2>/dev/null", "ls && npm test", "cd src && ls | cat"),
        *("echo $(git status)", "timeout 5 npm test", "cat <<'E'\n$(rm -rf x)\nE"),
        "echo 'rm -rf x'",
        *("for f in *.ts; do cat $f; done", "npm test >/dev/null 2>&1 || echo failed"),
        "git status # x",
    ],
)  # fmt: skip
def test_what_is_harmless_is_not_asked_about_as_in_openclaw_141987_and_gemini_cli_20744(command):
    assert decide(command) is ALLOW

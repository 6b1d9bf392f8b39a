"""`greenroom doctor` and `greenroom sessions`."""

from pathlib import Path

import pytest

from greenroom.cli import doctor
from greenroom.cli.doctor import examine
from greenroom.cli.options import Options
from greenroom.cli.run_rules import is_foreign
from greenroom.sandbox.report import Mechanisms, report_on


@pytest.fixture
def look(project, env, monkeypatch):
    def look(env_more=None, **options):
        monkeypatch.chdir(project)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        return {
            each.about: each for each in examine(Options(**options), {**env, **(env_more or {})})
        }

    return look


def test_a_machine_without_keys_is_fine_and_is_told_how_to_get_a_model(run):
    done = run("doctor", PATH="/usr/bin:/bin")
    assert done.code == 0
    assert "note  model: offline:rules, since no key is set" in done.out
    assert "→ set one of ANTHROPIC_API_KEY" in done.out
    assert "ok    bash: /" in done.out


def test_keys_are_named_and_never_shown(run):
    done = run("doctor", "--json", ANTHROPIC_API_KEY="sk-secret", OPENAI_API_KEY="sk-other")
    assert "sk-" not in done.out
    found = {each["about"]: each for each in done.json}
    assert found["model"]["detail"].endswith("since ANTHROPIC_API_KEY is set")
    assert found["variables set"]["detail"].startswith("ANTHROPIC_API_KEY, OPENAI_API_KEY")


def test_a_named_model_is_said_to_be_named(look):
    assert look(model="offline:")["model"].detail == "offline:rules, named with --model"


def test_a_model_without_its_key_is_a_problem_with_a_fix(run):
    done = run("--model", "anthropic:", "doctor")
    assert done.code == 1
    assert "FAIL  model" in done.out
    assert "ANTHROPIC_API_KEY" in done.out


def test_a_missing_program_says_what_to_install(look, monkeypatch, tmp_path):
    monkeypatch.setattr("shutil.which", lambda name: None)
    found = look()
    assert found["bash"].status == "problem"
    assert found["rg"].status == "note"
    assert "install ripgrep" in found["rg"].fix


def test_a_folder_that_can_not_be_written_is_a_problem(look, tmp_path):
    (tmp_path / "file").write_text("")
    found = look(sessions=str(tmp_path / "file" / "sessions"))["sessions"]
    assert found.status == "problem"
    assert "--sessions DIR" in found.fix


def test_a_database_of_sessions_is_as_good_as_a_folder(look, tmp_path):
    (tmp_path / "sessions.db").write_text("")
    found = look(sessions=str(tmp_path / "sessions.db"))["sessions"]
    assert (found.status, found.detail) == ("ok", str(tmp_path / "sessions.db"))


def test_rule_files_are_read_and_a_bad_one_is_named(look, project):
    (project / ".greenroom").mkdir()
    path = project / ".greenroom" / "permissions.json"
    path.write_text('{"version": 1, "rules": [{"decision": "deny", "tool": "Bash"}]}')
    assert look()["the project's rules"].detail == f"1 in {path}"
    path.write_text("{")
    broken = look()["the project's rules"]
    assert broken.status == "problem"
    assert "permissions.json:1" in broken.detail
    assert "every call is asked about" in broken.detail


def test_rules_of_a_project_that_are_ignored_are_not_said_to_be_fine(look, project):
    (project / ".greenroom").mkdir()
    path = project / ".greenroom" / "permissions.json"
    path.write_text('{"version": 1, "rules": [{"decision": "allow", "tool": "Bash"}]}')
    found = look()["the project's rules"]
    assert found.status == "note"
    assert found.detail.endswith("ignored, since a project may only deny and ask: 1")
    assert "permissions trust" in found.fix


def test_a_record_of_trust_that_is_broken_is_a_problem_and_trusts_nobody(
    look, project, env, monkeypatch
):
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (project / ".greenroom").mkdir()
    path = project / ".greenroom" / "permissions.json"
    path.write_text('{"version": 1, "rules": [{"decision": "allow", "tool": "Bash"}]}')
    config = Path(env["HOME"], ".config", "greenroom")
    config.mkdir(parents=True)
    (config / "trusted.json").write_text("{")
    found = look()["the project's rules"]
    assert found.status == "problem"
    assert "trusted.json" in found.detail
    assert is_foreign(path)


@pytest.mark.parametrize(
    ("more", "status", "says"),
    [
        ({"TERM": "xterm"}, "ok", "in colour"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "ok", "without colour"),
        ({"TERM": "dumb"}, "note", "plain"),
    ],
)
def test_the_terminal_is_described(look, monkeypatch, more, status, says):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    found = look(more)["terminal"]
    assert found.status == status
    assert says in found.detail


def test_another_system_is_a_problem(look, monkeypatch):
    monkeypatch.setattr("greenroom.cli.doctor.sys.platform", "sunos5")
    assert look()["platform"].fix == "use Linux or macOS"


def test_a_session_that_does_not_exist_is_exit_code_2_with_what_to_do(run):
    done = run("sessions", "show", "s-none")
    assert done.code == 2
    assert "`greenroom sessions list`" in done.err


def test_it_says_what_would_hold_commands_and_what_would_not(run):
    (found,) = (each for each in run("doctor", "--json").json if each["about"] == "sandbox")
    assert found["detail"].startswith("off; ")
    assert "missing: " in found["detail"]
    assert "disk (no limit on all files together)" in found["detail"]
    done = run("--sandbox", "read-only", "--sandbox-network", "all", "doctor")
    assert "sandbox: read-only; " in done.out
    assert "network (the policy leaves it open)" in done.out


async def test_what_is_asked_for_and_not_held_comes_with_a_fix(monkeypatch):
    async def examine(sandbox):
        return report_on(sandbox, Mechanisms("limits", why={"bubblewrap": "no namespaces"}))

    monkeypatch.setattr(doctor, "examine_sandbox", examine)
    found = await doctor.examine_commands(Options(sandbox="workspace-write"))
    assert found.status == "note"
    assert found.detail.count("bubblewrap: no namespaces") == 1
    assert "files, attributes, protected" in found.detail
    assert "install bubblewrap" in found.fix

"""The examples on the pages about a user's own files: settings, hooks, commands and agents."""

import json
import os
import re
from pathlib import Path

import pytest

from greenroom.cli.settings import parse_settings
from tests.warm_python import run_warm

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "how-to"


def blocks(page, language):
    text = (PAGES / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def home(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "README.md").write_text("# A project\n")
    folder = tmp_path / ".config" / "greenroom"
    for name in ("commands", "agents"):
        (folder / name).mkdir(parents=True)
    return folder


def ask(home, *words):
    """Ask the command, as somebody with nothing but Greenroom and these files."""
    folder = home.parents[1]
    arguments = ["-m", "greenroom", "--output-format", "json", "-p", *words]
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    code, printed, errors = run_warm(arguments, folder / "project", variables)
    assert code == 0, errors
    return json.loads(printed), errors


def said_in(home, result):
    [history] = home.parents[1].rglob(f"{result['session_id']}/history.jsonl")
    return history.read_text()


def test_the_command_and_the_agent_of_the_page_work(home):
    command, agent = blocks("own-commands-and-agents.md", "markdown")
    (home / "commands" / "greet.md").write_text(command)
    (home / "agents" / "reviewer.md").write_text(agent)
    [talk] = blocks("own-commands-and-agents.md", "text")
    [line] = re.findall(r"greenroom -p '(.*)'", talk)
    assert f"> {line}" in talk
    result, told = ask(home, line)
    assert 'Greet Ada \\"in French\\". The first is Ada, the second in French.' in said_in(
        home, result
    )
    assert "is not used" not in told
    result, _ = ask(home, "@reviewer read README.md")
    assert "The subagent answered" in result["result"]


def test_the_settings_on_the_pages_can_be_used(home):
    pages = ("hooks.md", "settings.md", "web-search.md")
    found = [each for page in pages for each in blocks(page, "json")]
    found += re.findall(r"`(\{\"web_search\".*?\}\})`", (PAGES / "web-search.md").read_text())
    assert len(found) >= 7
    for text in found:
        if "hookSpecificOutput" not in text:
            parse_settings(text, "settings.json")


def test_the_short_hook_keeps_the_agent_out_of_a_folder(home):
    [short] = [each for each in blocks("hooks.md", "json") if "/generated/" in each]
    (home / "settings.json").write_text(short)
    result, _ = ask(home, "write src/generated/a.txt: x", "--allow", "Write")
    assert "generated files are not edited" in result["denials"][0]["reason"]
    assert ask(home, "write src/a.txt: x", "--allow", "Write")[0]["denials"] == []


def test_the_answer_of_a_hook_denies_with_its_reason(home):
    [answer] = [each for each in blocks("hooks.md", "json") if "hookSpecificOutput" in each]
    hook = {"command": f"cat > seen.json; echo '{answer.strip()}'"}
    (home / "settings.json").write_text(json.dumps({"hooks": {"PreToolUse": [hook]}}))
    result, _ = ask(home, "write a.txt: x", "--allow", "Write")
    assert "not on Fridays" in result["denials"][0]["reason"]
    seen = json.loads((home.parents[1] / "project" / "seen.json").read_text())
    assert {"session_id", "cwd", "permission_mode", "hook_event_name"} < set(seen)

"""Words whose foreign letters pose as Latin ones are asked about; other languages are not."""

import pytest

from greenroom.core import AgentContext, Execute, RuleDecision, Workspace
from greenroom.core._internal import disguises
from greenroom.permissions import PermissionManager, PermissionRule

CONTEXT = AgentContext(session_id="s", agent_type="a", workspace=Workspace("/srv/project"))
MANAGER = PermissionManager([PermissionRule.allow_all()])


def explained(tool, data):
    return MANAGER.explain(tool, data, CONTEXT)


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("сат a", "U+0441 (CYRILLIC SMALL LETTER ES)"),
        ("ѕudо ls", "U+0455 (CYRILLIC SMALL LETTER DZE)"),
        ("ｒｍ -rf x", "U+FF52 (FULLWIDTH LATIN SMALL LETTER R)"),
        ("𝗿𝗺 x", "U+1D5FF"),
        ("ꓖꓲꓔ log", "U+A4D6"),
        ("сат 'привет'", "U+0441"),
        ("'сат' a", "U+0441"),
        ("timeout 5 сат a", "U+0441"),
        ("git push --fоrсe", "U+043E"),
        ("git push '--fоrсe'", "U+043E"),
        ("cat ѕrс/a", "U+0455"),
        ("cat 'ѕrс/a'", "U+0455"),
        ("curl https://gіthub.com/x", "U+0456"),
        ("ssh rооt@host", "U+043E"),
        ("echo a > ѕrс/a", "U+0455"),
        ("echo a 2>> 'ѕrс/a'", "U+0455"),
        ("sort < ѕrс/a", "U+0455"),
        ("grep '-е x' a", "U+0435"),
        ("grep '‐e x' a", "U+2010"),
        ("sort '−−output=a b' c", "U+2212"),
    ],
)
def test_a_word_that_poses_as_another_is_asked_about(command, named):
    found = explained("Bash", {"command": command})
    assert found.decision is RuleDecision.ASK
    assert named in found.reason


@pytest.mark.parametrize(
    "command",
    [
        'echo "привет"',
        "echo 'как там тест'",
        'git commit -m "修正"',
        "git commit -m 'Исправил сор в коде'",
        "git commit -m 'ΑΒΓ test'",
        "cat отчёт.txt",
        "cat отчёт_final.txt текст.md",
        "./скрипт.sh --имя=x",
        "grep größe naïve",
        "grep '5 μs' a",
        "ls 文档 δοκιμή",
        "git log --author=Иван",
        "git log > 'отчёт за май.txt'",
        "git commit -m '— исправление'",
        "git commit -m '–исправление сора'",
        "git commit -m '«сор» в избе'",
    ],
)
def test_text_in_another_language_is_not(command):
    assert explained("Bash", {"command": command}).decision is RuleDecision.ALLOW


def test_a_text_for_a_shell_is_looked_at_as_well():
    found = explained("Bash", {"command": "bash -c 'сат a'"})
    assert any("U+0441" in part.reason for part in found.parts)


class Runner:
    """A tool that runs a program without a shell."""

    name, category = "Run", "execute"

    def effects(self, input, context):
        return (Execute(tuple(input["words"])),)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", {"file_path": "a\u202e.txt"}),
        ("Edit", {"file_path": "\u200ba.txt"}),
        ("Write", {"file_path": "a\x1b[2K.txt"}),
        ("Grep", {"pattern": "a", "path": "src\u2060"}),
        ("Glob", {"pattern": "*\u202e.txt"}),
        (Runner(), {"words": ["cat", "a\u202e.txt"]}),
        (Runner(), {"words": ["cat", "ѕrс/a"]}),
    ],
)
def test_what_can_not_be_seen_in_a_path_is_asked_about(tool, arguments):
    found = explained(tool, arguments)
    assert found.decision is RuleDecision.ASK
    assert "U+" in found.reason


@pytest.mark.parametrize(
    ("tool", "key", "text", "decision"),
    [
        ("Read", "file_path", "ѕrс/a", RuleDecision.ASK),
        ("Write", "file_path", "соре.py", RuleDecision.ASK),
        ("WebFetch", "url", "https://аррӏе.com/", RuleDecision.ASK),
        ("Read", "file_path", "отчёт.txt", RuleDecision.ALLOW),
        ("WebFetch", "url", "https://ru.test/wiki/Текст", RuleDecision.ALLOW),
        ("WebFetch", "url", "https://bücher.test/", RuleDecision.ALLOW),
    ],
)
def test_a_path_or_a_host_that_poses_as_another_is_asked_about(tool, key, text, decision):
    assert explained(tool, {key: text}).decision is decision


@pytest.mark.parametrize(
    "text", ["сат", "ѕudо", "ｒｍ", "ср a b", "ехес", "ΚΙΝ", "𝐬𝐬𝐡 x", "ꓖꓲꓔ", "ᏚᎻ x", "օո"]
)
def test_a_prompt_warns_of_whole_words(text):
    [warning] = disguises(text)
    assert "look alike" in warning


@pytest.mark.parametrize(
    "text", ["как там тест, привет", "нет", "вот", "отчёт.txt", "größe", "修正 ＡＰＩ修正", "μ"]
)
def test_a_prompt_does_not_warn_of_other_languages(text):
    assert disguises(text) == ()

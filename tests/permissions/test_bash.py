"""What real bash runs and writes, held against what was allowed.

GREENROOM_BASH_CASES is how many commands are composed (CONTRIBUTING.md has the long run), and
GREENROOM_BASH_SEED the first seed, which is printed.
"""

import os
import random
import re
import subprocess
from collections import Counter

import pytest

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.shell.analyser import list_effects
from greenroom.shell.effects import Place
from tests.permissions import generated
from tests.permissions.bash_oracle import outcomes
from tests.permissions.generated import TECHNIQUES, each_once, edited, generate, scrambled

CASES = int(os.environ.get("GREENROOM_BASH_CASES", "1200"))
SEED = int(os.environ.get("GREENROOM_BASH_SEED", "0"))
CONTEXT = AgentContext(session_id="s", agent_type="a", workspace=Workspace("/srv/project"))


@pytest.fixture(scope="module")
def commands():
    """Compose different commands, each template once before any stands with others."""
    print(f"GREENROOM_BASH_SEED={SEED}")
    found = {each.text: each for each in each_once()}
    seed = SEED
    while len(found) < CASES:
        each = generate(seed)
        found.setdefault(each.text, each)
        seed += 1
    return list(found.values())


@pytest.fixture(scope="module")
def allowed(commands):
    texts = set(allowed_of([each.text for each in commands]))
    return [each for each in commands if each.text in texts]


def allowed_of(texts, rules=generated.RULES):
    """Leave out what these rules ask about or deny."""
    manager = PermissionManager(rules)
    return [
        text
        for text in dict.fromkeys(texts)
        if manager.check("Bash", {"command": text}, CONTEXT) is RuleDecision.ALLOW
    ]


def beyond(texts, done):
    """Say what bash did that the rules do not allow."""
    found = zip(texts, (each.beyond(generated.ALLOWED) for each in done), strict=True)
    return [(text, what) for text, what in found if what]


def test_bash_runs_and_writes_nothing_beyond_what_was_allowed(allowed, tmp_path):
    texts = [each.text for each in allowed]
    done = outcomes(texts, tmp_path)
    assert beyond(texts, done) == []
    assert sum(bool(outcome.ran) for outcome in done) > 0.8 * len(allowed)


def test_bash_does_nothing_beyond_it_when_cases_are_changed_a_little(tmp_path):
    texts = allowed_of(edited(SEED + number) for number in range(2 * CASES))
    print(f"{len(texts)} of {2 * CASES} changed cases are allowed")
    assert beyond(texts, outcomes(texts, tmp_path)) == []
    assert texts


def test_bash_does_nothing_beyond_it_when_tokens_stand_in_any_order(tmp_path):
    rows = (scrambled(SEED + number) for number in range(12 * CASES))
    texts = allowed_of(row for row in rows if "evil" in row)
    print(f"{len(texts)} of {12 * CASES} rows of tokens hold harm and are allowed")
    assert beyond(texts, outcomes(texts, tmp_path)) == []
    assert texts


def test_bash_runs_nothing_denied_where_all_else_is_allowed(tmp_path):
    deny = PermissionRule.deny_command("evil", "rm -rf", priority=1)
    seeds = range(SEED, SEED + CASES // 4)
    composed = (text for each in seeds for text in (generate(each).text, edited(each)))
    texts = allowed_of(composed, [PermissionRule.allow_tool("Bash"), deny])
    denied = [
        (text, words)
        for text, outcome in zip(texts, outcomes(texts, tmp_path), strict=True)
        for words in outcome.ran
        # What the files in that folder hold is nowhere to be seen, and of scripts in another
        # language only plain commands are.
        if words != ("evil", "f2") and _is_denied(words) and not re.search(r"\b(?:awk|sed)\b", text)
    ]
    assert denied == []
    assert texts


def _is_denied(words):
    return words[0].lower() == "evil" or (words[0].lower() == "rm" and words[1:2] == ("-rf",))


def test_three_commands_in_ten_are_allowed_so_that_there_is_something_to_hold(commands, allowed):
    print(f"{len(commands)} commands, {len(allowed)} of them allowed")
    assert len(allowed) >= 0.3 * len(commands)


def test_every_technique_is_represented_and_none_is_only_ever_refused(commands, allowed):
    composed = Counter(row for each in commands for row in each.rows)
    passed = Counter(row for each in allowed for row in each.rows)
    for row, templates in TECHNIQUES.items():
        print(f"{composed[row]:6} {passed[row]:6} allowed  {row}")
        assert composed[row] >= max(len(templates), CASES // 100)
        assert passed[row] >= 1
    assert {each.used[0] for each in each_once()} == {
        (row, template) for row, templates in TECHNIQUES.items() for template in templates
    }


def test_the_oracle_notices_what_a_bypass_does(tmp_path):
    bypasses = ["evil a", "good; evil", "PATH=./bad good", "good > out", "sort -o f f", "rm -rf x"]
    harmless = ["good 'evil' < f", "cat f | sort > /dev/null", "true"]
    done = outcomes([*bypasses, *harmless], tmp_path)
    assert [text for text, _ in beyond([*bypasses, *harmless], done)] == bypasses


def test_words_with_braces_are_what_bash_makes_of_them():
    parts = ["{", "}", ",", "a", "b", "{}", "{a,b}", "..", "1", "'{'", "\\,", "\\}", "''"]
    chance = random.Random(SEED)
    words = ["".join(chance.choices(parts, k=chance.randint(2, 9))) for _ in range(3 * CASES)]
    script = "\n".join(f"printf '%s|' {word}; echo" for word in words)
    bash = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    compared = 0
    for word, line in zip(words, bash.stdout.splitlines(), strict=True):
        (command,) = list_effects(f"ls {word}", Place("/srv/project", "/srv/project"))
        if all(each.static for each in command.argv):
            ours = [each.text for each in command.argv[1:]] or [""]
            assert ours == line.split("|")[:-1], word
            compared += 1
    assert compared > CASES / 2

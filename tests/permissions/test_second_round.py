"""Everyday commands after an "always": the rule for each, which keeps it from being asked again."""

import shlex

import pytest
from hypothesis import given, settings, strategies as st

from greenroom.core import AgentContext, RuleDecision, Workspace
from greenroom.permissions import PermissionManager, PermissionRule
from tests.conftest import EXAMPLES

ALLOW, ASK, DENY = RuleDecision.ALLOW, RuleDecision.ASK, RuleDecision.DENY
ACTIVATE = ".venv/bin/activate"

pytestmark = pytest.mark.usefixtures("everyday_programs")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A workspace with a virtual environment and packages of node, beside one of somebody else."""
    top = tmp_path_factory.mktemp("top")
    for folder in ("project", "elsewhere"):
        for name in ("pytest", "python", "pip", "activate"):
            file = top / folder / ".venv/bin" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        (top / folder / ".venv/pyvenv.cfg").touch()
    root = top / "project"
    (root / "node_modules/.bin").mkdir(parents=True)
    for name in ("jest", "tsc", "tsx"):
        (root / "node_modules/.bin" / name).touch()
    (root / "tools/bin").mkdir(parents=True)
    (root / "tools/bin/pytest").touch()
    (root / "linked").symlink_to(top / "elsewhere/.venv")
    (root / "away").symlink_to(top / "elsewhere")
    return root


def context_of(root):
    return AgentContext(session_id="s", agent_type="a", workspace=Workspace(root))


def ask(manager, command, root):
    return manager.explain("Bash", {"command": command}, context_of(root))


def answer(manager, command, root, *, prefix=True):
    """Answer "always", with prefixes where there are any, and show the rules that this adds."""
    found = ask(manager, command, root)
    assert found.decision is ASK
    rules = manager.remember(found, ALLOW, "always", context_of(root), prefix=prefix)
    return [str(rule.matcher).removeprefix("Bash(").removesuffix(")") for rule in rules]


OFFERED = [
    # variables
    ("PYTHONPATH=src pytest -q", ["PYTHONPATH=src pytest:*"]),
    ("PYTHONPATH=src:. python -m pytest", ["PYTHONPATH=src:. python -m pytest:*"]),
    ("NODE_ENV=test npm test", ["NODE_ENV=test npm test:*"]),
    ("FOO=1 BAR=2 make test", ["FOO=1 BAR=2 make test"]),
    ("CI=1 npx jest", ["CI=1 npx jest:*"]),
    ("DATABASE_URL=sqlite:///t.db timeout 9 pytest", ["DATABASE_URL=sqlite:///t.db pytest:*"]),
    ("NO_COLOR=1 LANG=C pytest", ["pytest:*"]),
    ("export CI=1 && make", ["export CI=1", "make"]),
    # the workspace's own programs
    (f"source {ACTIVATE} && pytest -q", [f"source {ACTIVATE}", "pytest:*"]),
    (f". ./{ACTIVATE}", [f". ./{ACTIVATE}"]),
    (".venv/bin/pytest -x tests", [".venv/bin/pytest:*"]),
    (".venv/bin/python -m pytest", [".venv/bin/python -m pytest:*"]),
    (".venv/bin/python a.py", [".venv/bin/python a.py"]),
    (".venv/bin/pip install -r requirements.txt", [".venv/bin/pip install -r requirements.txt"]),
    ("./node_modules/.bin/jest a", ["./node_modules/.bin/jest:*"]),
    ("npx tsc --noEmit", ["npx tsc:*"]),
    ("npx tsx a.ts", ["npx tsx a.ts"]),
    ("pnpm exec jest", ["pnpm exec jest:*"]),
    ("tools/bin/pytest", ["tools/bin/pytest"]),
    # redirections
    ("pytest -q > out.log 2>&1", ["pytest:*, > out.log"]),
    ("CI=1 make > out.log 2>> err.log", ["CI=1 make, > out.log, > err.log"]),
    ("cd api && make > o", ["make, > api/o"]),
    ("timeout 9 make < in > o", ["make, > o"]),
    ("pytest -q 2>&1 | tee logs/o", ["pytest:*", "tee logs/o"]),
    ("pytest 2>/dev/null", ["pytest:*"]),
    # what writes in the workspace
    ("mkdir -p build/x", ["mkdir -p build/x"]),
    ("rm -rf build node_modules", ["rm -rf build node_modules"]),
    ("cp a src/b && mv b .", ["cp a src/b", "mv b ."]),
    ("touch x", ["touch x"]),
    ("chmod +x scripts/run.sh", ["chmod +x scripts/run.sh"]),
    ("sed -i 's/a/b/' a.py", ["sed -i s/a/b/ a.py"]),
    ("python -m venv .venv", ["python -m venv .venv"]),
    # what installs what the project lists
    ("npm ci", ["npm ci"]),
    ("npm install --no-audit", ["npm install --no-audit"]),
    ("pip install -e '.[dev]'", ["pip install -e '.[dev]'"]),
    ("python -m pip install -r requirements/dev.txt", None),
    ("uv sync && poetry install", ["uv sync", "poetry install"]),
    ("npm install x && yarn add x", ["npm install x", "yarn add x"]),
    # what runs texts, sends or destroys, with exactly these words
    ("npx x && npx --yes jest", ["npx x", "npx --yes jest"]),
    (".venv/bin/python -c 1", None),
    ("bash scripts/run.sh", None),
    ("sudo make > o", ["sudo make, > o"]),
    ("curl https://x.test", None),
    ("curl -o a localhost", None),
    ("git push --force", None),
    ("git reset --hard", None),
    ("find . -delete", None),
    ("kill 1", None),
    # the rest of a day
    ("curl -s http://localhost:8000/health", None),
    ("curl -X POST -H 'A: b' -d @x.json localhost:3000", None),
    ("docker compose up -d", ["docker compose up:*"]),
    ("python script.py", None),
    ("node script.js", None),
    ("git push -u origin main", None),
    ("git pull --rebase", None),
    ("git reset HEAD a.py", None),
]


@pytest.mark.parametrize(("command", "rules"), OFFERED)
def test_what_an_always_remembers_is_not_asked_again(root, command, rules):
    manager = PermissionManager()
    assert answer(manager, command, root) == ([command] if rules is None else rules)
    assert ask(manager, command, root).decision is ALLOW
    manager = PermissionManager()
    assert not any(":*" in rule for rule in answer(manager, command, root, prefix=False))
    assert ask(manager, command, root).decision is ALLOW


NOT_OFFERED = [
    # variables that decide what runs
    *(
        "LD_PRELOAD=./x.so make",
        "PATH=.:$PATH make",
        "PATH=. make",
        "BASH_ENV=x make",
        "IFS=x make",
    ),
    *("GIT_PAGER=x git log", "EDITOR=x git commit", "NODE_OPTIONS='-r x' npm test"),
    *("PYTHONSTARTUP=x pytest", "PYTHONPATH=/srv pytest", "PYTHONPATH=../x pytest"),
    *("PYTHONPATH=away pytest", "PYTHONPATH= pytest", "BROWSER=x npm start", "A=~/x make"),
    *("MAKEFILES=x make", "PYTEST_PLUGINS=x pytest", "XDG_CONFIG_HOME=x git status"),
    *("A='$(id)' make", "A=$X make", "KUBECONFIG=x kubectl get pods", "A=1; make"),
    *("A=1 A=2 make", "env A=1 make", "export PATH=."),
    # what takes its program or its words from elsewhere
    *(". x.sh", "source .venv/bin/python", "source linked/bin/activate"),
    *(f"source ../elsewhere/{ACTIVATE}", f"source {ACTIVATE} x"),
    *("npx tsx", "uv run python", ".venv/bin/python -", "ls | xargs rm", "eval ls"),
    # files outside of the workspace, protected ones, and the workspace as a whole
    *("make > /tmp/o", "make > ../o", "make > .git/hooks/x", "make > $X", "make > *.log"),
    *("make > away/o", "{ make; } > o", "sudo make > /tmp/o", "curl -o /tmp/a localhost"),
    *("rm -rf .", "rm -rf ..", "rm -rf /", "rm -rf ~", "rm -rf $X", "rm .git", "rm -rf away/x"),
    *("cp a .git/hooks/x", "cp a -t/etc", "cp --target-directory=../x a", "mv ../a ."),
    *("touch .envrc", "cd .. && rm -rf x", "cd $X && rm x", "chmod 777 /", "sed -i s/a/b/ /etc/x"),
]


@pytest.mark.parametrize("command", NOT_OFFERED)
def test_what_is_too_broad_or_leads_out_of_the_workspace_is_not_offered(root, command):
    offered = [str(rule.matcher) for rule in ask(PermissionManager(), command, root).remembers]
    assert [each for each in offered if not each.startswith("Bash(cd ")] == []


@pytest.mark.parametrize(
    ("command", "others"),
    [
        (
            "PYTHONPATH=src pytest -q",
            ["pytest", "PYTHONPATH=lib pytest", "PYTHONPATH=src A=1 pytest", "PYTHONPATH=src make"],
        ),
        ("pytest > out.log", ["pytest > other.log", "make > out.log", "pytest | make > out.log"]),
        (
            "rm -rf build",
            ["rm -rf build src", "rm -r build", "rm -rf build/", "cd x && rm -rf ../y"],
        ),
        (f"source {ACTIVATE}", [f"source x/{ACTIVATE}", f"source {ACTIVATE} x", f"sh {ACTIVATE}"]),
        (".venv/bin/pytest", ["pytest", "away/.venv/bin/pytest", ".venv/bin/python -m pytest"]),
        ("npm ci", ["npm ci x", "npm install", "CI=1 npm ci"]),
    ],
)
def test_what_is_remembered_covers_nothing_else(root, command, others):
    manager = PermissionManager()
    assert answer(manager, command, root)
    assert {each: ask(manager, each, root).decision for each in others} == dict.fromkeys(
        others, ASK
    )


def test_a_place_that_a_rule_allows_needs_no_rule_for_a_redirection(root):
    manager = PermissionManager([PermissionRule.allow_path("/tmp/logs/**")])
    assert answer(manager, "make > /tmp/logs/o", root) == ["make"]
    assert ask(manager, "make > /tmp/logs/p 2> /tmp/logs/q", root).decision is ALLOW
    # Where no rule can name the file, one for the rest would not keep the next question away.
    assert ask(PermissionManager(), "make > '*'", root).remembers == ()
    # A rule for a tool is about that tool alone.
    manager = PermissionManager([PermissionRule.parse("Write(/tmp/logs/**)", "allow")])
    assert ask(manager, "make > /tmp/logs/o", root).remembers == ()


def test_a_rule_that_asks_or_denies_keeps_an_answer_from_being_offered(root):
    manager = PermissionManager([PermissionRule.parse("Bash(CI=1 make:*)", "ask")])
    assert ask(manager, "CI=1 make", root).remembers == ()
    assert answer(manager, "CI=2 make", root) == ["CI=2 make"]
    denied = PermissionManager([PermissionRule.deny_path("out.log")])
    assert ask(denied, "make > out.log", root).decision is DENY


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("CI=1 make all", "Bash(CI=1 make all)"),
        ("CI=1 git push --force", "Bash(CI=1 git push:*)"),
        ("uv pip install x", "Bash(uv pip install:*)"),
    ],
)
def test_a_never_forbids_the_command_with_the_variables_that_were_set(root, command, rule):
    manager = PermissionManager()
    (made,) = manager.remember(ask(manager, command, root), DENY, "always", context_of(root))
    assert str(made.matcher) == rule
    assert ask(manager, command, root).decision is DENY


COMMANDS = st.sampled_from([command for command, _ in OFFERED])
OPERATORS = st.sampled_from(
    [
        "; {}",
        "&& {}",
        "| {}",
        "& {}",
        "> {}",
        "$({})",
        "<({})",
        "`{}`",
        "\n{}",
        "|| {}",
        "<<< $({})",
    ]
)
WORDS = st.sampled_from(
    ["frob", "'a b'", "$X", "$(frob)", "../x", "/etc/x", ".git/hooks/x", "*", "-o"]
)


@settings(max_examples=3 * EXAMPLES)
@given(COMMANDS, OPERATORS, WORDS)
def test_a_remembered_command_with_another_behind_it_is_asked_about(root, command, operator, word):
    manager = PermissionManager()
    answer(manager, command, root)
    changed = f"{command} {operator.format(f'frob {word}')}"
    assert ask(manager, changed, root).decision is ASK


@settings(max_examples=3 * EXAMPLES)
@given(COMMANDS, st.data())
def test_an_exact_rule_is_about_no_command_with_another_word(root, command, data):
    manager = PermissionManager()
    answer(manager, command, root)
    exact = [rule.matcher for rule in manager.rules if rule.matcher.argv_exact]
    for matcher in exact:
        place = data.draw(st.integers(1, len(matcher.exact)))
        words = [*map(shlex.quote, matcher.exact)]
        words.insert(place, data.draw(WORDS))
        alone = PermissionManager([PermissionRule(decision=ALLOW, matcher=matcher)])
        assert ask(alone, " ".join([*matcher.settings, *words]), root).decision is ASK

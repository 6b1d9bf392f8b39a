import os
import tempfile
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from greenroom.core import AgentContext, RuleDecision, RuleFileError, Workspace
from greenroom.fs import file_lookup
from greenroom.fs.file_lookup import FileLookup
from greenroom.permissions import PermissionManager, PermissionRule, RuleMatcher
from greenroom.permissions.call import read_call
from greenroom.permissions.evaluator import evaluate
from greenroom.permissions.scopes import RuleIndex

CONTEXT = AgentContext(session_id="s-1", agent_type="coder", workspace=Workspace("/srv/project"))
PROGRAMS = [
    "rm",
    "RM",
    "/bin/rm",
    "git",
    "frob",
    "./Frob",
    "sudo",
    "timeout 5",
    "find . -exec",
    "r?",
]
WORDS = [
    *PROGRAMS,
    "-rf",
    "push",
    "$X",
    ".env",
    ".ENV",
    "src/a.pem",
    "A.PEM",
    "é",
    "e\u0301",
    "*",
    "s*c/.e?v",
    "*m",
    ".[[:alpha:]]nv",
    "git push",
    "-",
]
NAMES = [
    "src",
    "SRC",
    ".env",
    "*.pem",
    "*",
    "**",
    "a?",
    "é",
    "e\u0301",
    "[ab]",
    "*.tar.gz",
    "{a,*.b}",
]


class Scan(RuleIndex):
    """Rules without an index: all of them may be about anything."""

    def find_rules(self, fact):
        return self.all


def matchers():
    prefixes = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
    paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
    anchored = st.tuples(st.sampled_from(["", "/", "~/"]), paths).map("".join)
    kinds = [
        prefixes.map(lambda each: {"command_prefix": (each,)}),
        prefixes.map(lambda each: {"argv_exact": tuple(each.split())}),
        prefixes.map(lambda each: {"command_prefix": (each,), "redirect_to": ("**/*.pem",)}),
        st.sampled_from(["rm.*", ".*push", "frob"]).map(lambda each: {"regex": (each,)}),
        st.lists(anchored, min_size=1, max_size=2).map(lambda each: {"path": tuple(each)}),
        st.sampled_from(["a.test", "*.a.test"]).map(lambda each: {"domain": (each,)}),
        st.just({"tool": ("Bash", "Read")}),
        st.just({"all": True}),
    ]
    return st.one_of(kinds)


@st.composite
def rules(draw):
    made = []
    for number, matcher in enumerate(draw(st.lists(matchers(), max_size=6))):
        decision = draw(st.sampled_from(list(RuleDecision)))
        try:
            made.append(
                PermissionRule(decision=decision, matcher=RuleMatcher(**matcher), id=f"{number}")
            )
        except RuleFileError:
            continue  # such as a prefix with a variable in it
    return made


words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
commands = st.lists(words, min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from([" ; ", " | ", " > ", " && cd src && "]).map(
        lambda joint: joint.join(parts)
    )
)
files = st.lists(
    st.sampled_from(["src", "Src", ".env", ".ENV", "x.PEM", "b.tar.gz", "ab", "é", "e\u0301", "A"]),
    min_size=1,
    max_size=3,
).map("/".join)
globs = st.lists(st.sampled_from([*NAMES, "*v", "[[:alpha:]]*", "s*"]), min_size=1, max_size=3).map(
    "/".join
)
calls = st.one_of(
    commands.map(lambda command: ("Bash", {"command": command})),
    files.map(lambda name: ("Read", {"file_path": name})),
    files.map(lambda name: ("Write", {"file_path": f"~/{name}", "content": ""})),
    files.map(lambda name: ("Bash", {"command": f"cat {name} https://x.a.test/{name}"})),
    globs.map(lambda name: ("Bash", {"command": f"cat {name}"})),
    st.just(("WebFetch", {"url": "https://x.a.test/"})),
    st.just(("Other", {})),
)


@given(rules(), st.lists(calls, min_size=1, max_size=4))
def test_an_index_finds_what_looking_at_every_rule_finds(rules, calls):
    for tool, arguments in calls:
        call = read_call(tool, arguments, CONTEXT)
        assert evaluate(call, RuleIndex(rules)) == evaluate(call, Scan(rules))


def test_few_of_many_rules_are_looked_at():
    rules = [PermissionRule.allow_command(f"tool{n} run") for n in range(100)]
    rules += [PermissionRule.deny_path(f"**/secret{n}.key", f"d{n}/**") for n in range(100)]
    index = RuleIndex(
        [*rules, PermissionRule.deny_path("**/*.key"), PermissionRule.ask_for_tool("B")]
    )
    facts = [
        *read_call("Bash", {"command": "timeout 5 tool7 run"}, CONTEXT).facts,
        *read_call("Read", {"file_path": "D4/secret9.KEY"}, CONTEXT).facts,
        *read_call("WebFetch", {"url": "https://a.test/"}, CONTEXT).facts,
    ]
    found = [
        [rules.index(rule) for rule in index.find_rules(fact) if rule in rules] for fact in facts
    ]
    assert found == [[], [7], [104, 109], []]
    assert all(len(list(index.find_rules(fact))) <= 4 for fact in facts)


@pytest.fixture(scope="module")
def tree():
    with tempfile.TemporaryDirectory() as folder:
        yield os.path.realpath(folder)


names = st.sampled_from(["a", "b", "c"])
inside = st.lists(names, min_size=1, max_size=3)
paths = st.lists(st.one_of(names, st.just(".."), st.just(".")), min_size=1, max_size=5).map(
    "/".join
)


@given(st.lists(st.tuples(inside, paths, st.booleans()), max_size=6), st.lists(paths, max_size=5))
def test_links_lead_where_the_system_says(tree, made, asked):
    with tempfile.TemporaryDirectory(dir=tree) as folder:
        for at, target, absolute in made:
            parent = os.path.realpath(os.path.join(folder, *at[:-1]))
            if f"{parent}/".startswith(f"{folder}/"):  # the links made so far may lead out of it
                with suppress(OSError):
                    os.makedirs(parent, exist_ok=True)
                    aim = os.path.join(folder, target) if absolute else target
                    os.symlink(aim, os.path.join(parent, at[-1]))
        known = FileLookup()
        for path in asked:
            joined = os.path.join(folder, path)
            real = os.path.realpath(joined)
            try:
                os.stat(joined)
            except FileNotFoundError:
                pass
            except OSError:
                continue  # a circle, which no program can open
            assert known.resolve(joined) == real
        assert not known.is_exhausted


def test_a_command_that_names_more_files_than_are_looked_up_is_asked_about(monkeypatch, tmp_path):
    monkeypatch.setattr(file_lookup, "MAX_LOOKUPS", 40)
    (tmp_path / "shortcut").symlink_to(".env")
    context = AgentContext(session_id="s-1", agent_type="coder", workspace=Workspace(tmp_path))
    rules = [PermissionRule.allow_command("cat"), PermissionRule.deny_path("**/.env")]
    manager = PermissionManager(rules)

    def check(command):
        return manager.check("Bash", {"command": command}, context)

    many = " ".join(f"w{n}" for n in range(50))
    assert check("cat w1 w2") is RuleDecision.ALLOW
    assert check("cat shortcut") is RuleDecision.DENY
    assert check(f"cat {many} shortcut") is RuleDecision.ASK
    assert check(f"cat {many} .env") is RuleDecision.DENY
    assert check(" ; ".join(f"cat > w{n}" for n in range(50))) is RuleDecision.ASK

"""A search shows no line and no name of a file that a rule keeps from it."""

import itertools
import os
import shutil
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import trio
from hypothesis import given, strategies as st

from greenroom.core import (
    AgentContext,
    PermissionRequest,
    RuleDecision,
    ToolError,
    Workspace,
    utc_now,
)
from greenroom.permissions import (
    PermissionManager,
    PermissionRule,
    RuleMatcher,
    RuleScope,
    read_screen,
)
from greenroom.permissions._internal import tighten
from greenroom.testing import call
from greenroom.tools import Glob, Grep, Read
from tests.agents.test_tool_calls import Stage

ALLOW, DENY, ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK
ENGINES = [
    pytest.param(
        True, marks=pytest.mark.skipif(not shutil.which("rg"), reason="rg is not installed")
    ),
    False,
]
READING = PermissionRule.allow_category("read")
SECRETS = PermissionRule.deny_path("secrets/**")


def plant(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"SECRET of {path}\nplain\n")


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    plant(folder, "a.py", "src/b.py", "src/.env", "secrets/key.pem", "secrets/deep/k.txt")
    return Path(os.path.realpath(folder))


def context_of(root, agent="coder", session="s-1"):
    return AgentContext(session_id=session, agent_type=agent, workspace=Workspace(root))


def search(tool, manager, context, **data):
    """Run a call as `run_tools` does, after it was allowed; the lines of its result."""
    context.on_search = partial(manager.screen_reads, tool, data, context)
    return trio.run(tool.execute, data, context).text.splitlines()


@pytest.mark.parametrize("use_ripgrep", ENGINES)
@pytest.mark.parametrize("mode", ["files_with_matches", "content", "count"])
async def test_an_agent_s_search_leaves_out_what_a_rule_denies(root, use_ripgrep, mode):
    tools = [Grep(use_ripgrep=use_ripgrep), Glob(use_ripgrep=use_ripgrep)]
    calls = (
        call("Grep", pattern="SECRET", output_mode=mode, **{"-C": 1} if mode == "content" else {}),
        call("Glob", pattern="**/*"),
    )
    rules = [READING, SECRETS]
    async with Stage(tools, *calls, "ok", rules=rules, workspace=root) as stage:
        await stage.handle.ask("go")
    for request in stage.llm.requests[1:]:
        (result,) = request.messages[-1].tool_results
        assert not result.is_error
        lines = result.text.splitlines()
        assert lines[-1] == "[2 files left out: a rule denies reading them]"
        assert "key.pem" not in result.text
        assert {"a.py", "src/b.py"} <= {line.split(":")[0].split("-")[0] for line in lines}


async def test_a_person_s_yes_to_a_search_is_no_yes_to_what_is_denied(root):
    rules = [SECRETS, PermissionRule.ask_for_tool("Grep")]
    stage = Stage([Grep()], call("Grep", pattern="SECRET"), "ok", rules=rules, workspace=root)
    async with stage:
        await stage.handle.send_input("go")
        request = await stage.next(PermissionRequest)
        async with stage.handle.subscribe(answers=True):
            await stage.handle.respond_permission(request.request_id, "allow")
            await stage.handle.ask("and then?")
    (result,) = stage.llm.requests[1].messages[-1].tool_results
    assert result.text.splitlines() == [
        "a.py",
        "src/.env",
        "src/b.py",
        "[2 files left out: a rule denies reading them]",
    ]


def shown(manager, root, tool=None, context=None, **data):
    """The files that a search shows, and its notes."""
    tool = tool or Grep(use_ripgrep=False)
    context = context or context_of(root)
    data = {"pattern": "SECRET" if tool.name == "Grep" else "**/*", **data}
    lines = search(tool, manager, context, **data)
    return {line for line in lines if line[0] != "["}, [x[1:-1] for x in lines if x[0] == "["]


ALL = {"a.py", "src/b.py", "src/.env", "secrets/key.pem", "secrets/deep/k.txt"}
OPEN = {"a.py", "src/b.py", "src/.env"}
NONE = "no matches found"
TWO = ["2 files left out: a rule denies reading them"]


@pytest.mark.parametrize(
    ("rules", "left", "notes"),
    [
        ([], ALL, []),
        ([SECRETS], OPEN, TWO),
        ([PermissionRule.deny_path("SECRETS/**")], OPEN, TWO),
        (
            [PermissionRule.deny_path("**/*.pem")],
            ALL - {"secrets/key.pem"},
            ["1 file left out: a rule denies reading it"],
        ),
        (
            [PermissionRule.ask_for_path("**/.env")],
            ALL - {"src/.env"},
            ["1 file left out: a rule asks about reading it"],
        ),
        (
            [SECRETS, PermissionRule.ask_for_path("**/.env", "*.py")],
            {"src/b.py"},
            [*TWO, "2 files left out: a rule asks about reading them"],
        ),
        # Only rules about this tool count.
        ([PermissionRule.parse("Read(secrets/**)", "deny")], ALL, []),
        ([PermissionRule.parse("Grep(secrets/**)", "deny")], OPEN, TWO),
        ([PermissionRule.parse("category:read(secrets/**)", "deny")], OPEN, TWO),
        ([PermissionRule.parse("category:write(secrets/**)", "deny")], ALL, []),
        # The first rule that is about a file decides.
        (
            [SECRETS, PermissionRule.allow_path("secrets/key.pem", scope=RuleScope.USER)],
            OPEN | {"secrets/key.pem"},
            ["1 file left out: a rule denies reading it"],
        ),
        ([SECRETS, PermissionRule.allow_tool("Grep", scope=RuleScope.USER)], ALL, []),
        ([SECRETS, PermissionRule.allow_tool("Grep")], OPEN, TWO),
        (
            [
                PermissionRule.deny_path("secrets/**", final=True),
                PermissionRule.allow_tool("Grep", scope=RuleScope.USER),
            ],
            OPEN,
            TWO,
        ),
        # A question about the call has been answered; others have not.
        ([PermissionRule.ask_for_tool("Grep")], ALL, []),
        ([PermissionRule.ask_for_path("**")], ALL, []),
        ([PermissionRule.ask_for_tool("Grep"), SECRETS], OPEN, TWO),
        (
            [PermissionRule.allow_path(".", scope=RuleScope.USER), PermissionRule.deny_all()],
            {NONE},
            ["5 files left out: a rule denies reading them"],
        ),
        # Conditions, and rules for others.
        ([PermissionRule.parse("*(path:secrets/**)", "deny", agent="other")], ALL, []),
        ([PermissionRule.parse("*(path:secrets/**)", "deny", agent="coder")], OPEN, TWO),
        (
            [
                PermissionRule(
                    decision=DENY,
                    matcher=RuleMatcher(
                        path="secrets/**", predicate=lambda name, data: data["pattern"] == "SECRET"
                    ),
                )
            ],
            OPEN,
            TWO,
        ),
        (
            [
                PermissionRule(
                    decision=DENY,
                    matcher=RuleMatcher(path="secrets/**", predicate=lambda name, data: False),
                )
            ],
            ALL,
            [],
        ),
    ],
)
def test_each_file_is_judged_as_a_call_that_reads_it(root, rules, left, notes):
    assert shown(PermissionManager(rules), root) == (left, notes)


def test_a_rule_that_has_expired_keeps_nothing_back(root):
    past = PermissionRule.deny_path("secrets/**", expires=utc_now() - timedelta(seconds=1))
    coming = PermissionRule.deny_path("secrets/**", expires=utc_now() + timedelta(hours=1))
    assert shown(PermissionManager([past]), root) == (ALL, [])
    assert shown(PermissionManager([coming]), root) == (OPEN, TWO)


def test_a_question_that_only_tightens_hides_no_other(root):
    rules = tighten([PermissionRule.ask_for_tool("Grep", scope=RuleScope.USER)])
    manager = PermissionManager([*rules, PermissionRule.ask_for_path("secrets/**")])
    assert shown(manager, root) == (OPEN, ["2 files left out: a rule asks about reading them"])


@pytest.mark.parametrize(
    ("mode", "left", "verb"),
    [("default", OPEN, "asks about"), ("bypass", ALL, ""), ("deny", OPEN, "denies")],
)
def test_the_mode_settles_questions_about_files(root, mode, left, verb):
    manager = PermissionManager([PermissionRule.ask_for_path("secrets/**")], mode=mode)
    notes = [f"2 files left out: a rule {verb} reading them"] if verb else []
    assert shown(manager, root) == (left, notes)


def test_a_subagent_sees_no_file_that_is_kept_from_the_agents_above_it(root):
    above, below = context_of(root, "planner", "s-0"), context_of(root, "coder", "s-1")
    own = PermissionManager([PermissionRule.parse("*(path:secrets/**)", "deny", agent="planner")])
    assert shown(own, root, context=below) == (ALL, [])
    assert shown(own.child(context=above), root, context=below) == (OPEN, TWO)
    allowing = [PermissionRule.allow_tool("Grep", scope=RuleScope.USER)]
    assert shown(own.child(allowing, context=above), root, context=below) == (OPEN, TWO)
    called = PermissionManager(allowing).beneath(own, context=above, consents=["Grep"])
    assert shown(called, root, context=below) == (OPEN, TWO)
    assert shown(PermissionManager(allowing).child([SECRETS]), root) == (OPEN, TWO)
    # What is only asked about above the agent that spawned it is no denial.
    asking = PermissionManager([PermissionRule.parse("*(path:*.py)", "ask", agent="planner")])
    found, _ = shown(asking.child(context=above), root, context=below)
    assert found == ALL - {"a.py"}


def test_an_answer_for_the_session_holds_for_files_too(root):
    manager = PermissionManager()
    manager.add_session_rule("s-1", SECRETS)
    assert shown(manager, root) == (OPEN, TWO)
    assert shown(manager, root, context=context_of(root, session="s-2")) == (ALL, [])


def test_links_lead_around_no_rule(tmp_path, root):
    (root / "way").symlink_to("secrets")
    (tmp_path / "door").symlink_to(root)
    through = context_of(tmp_path / "door")
    assert shown(PermissionManager([SECRETS]), root, context=through) == (OPEN, TWO)
    for text in ("secrets/key.pem", f"{tmp_path}/door/secrets/key.pem", f"{root}/secrets/key.pem"):
        manager = PermissionManager([PermissionRule.deny_path(text)])
        expected = {"secrets/deep/k.txt"}, ["1 file left out: a rule denies reading it"]
        assert shown(manager, root, context=through, path="way") == expected
        assert shown(manager, root, context=through, path=str(root / "secrets")) == expected
    # A file is what it is called in the search as well.
    manager = PermissionManager([PermissionRule.deny_path("way/deep/**")])
    assert shown(manager, root, path="way")[0] == {"secrets/key.pem"}


def test_all_files_count_whatever_is_searched_for(root):
    manager = PermissionManager([SECRETS])
    for data in ({"pattern": "nowhere"}, {"glob": "*.py"}, {"type": "py"}, {"pattern": "key.pem"}):
        assert shown(manager, root, **data)[1] == TWO
    for pattern in ("**/*", "*.py", "**/k*", "*"):
        assert shown(manager, root, Glob(), pattern=pattern)[1] == TWO
    for pattern in ("src/*", "./src/**/*.py"):
        assert shown(manager, root, Glob(), pattern=pattern)[1] == []
    assert shown(manager, root, path="src") == ({"src/.env", "src/b.py"}, [])
    assert shown(manager, root, path="a.py") == ({"a.py"}, [])


@pytest.mark.parametrize("use_ripgrep", ENGINES)
def test_a_binary_file_stays_out_beside_files_that_are_left_out(root, use_ripgrep):
    (root / "binary").write_bytes(b"SECRET\n\0SECRET\n")
    (root / "utf16").write_bytes("SECRET\n".encode("utf-16"))
    tool = Grep(use_ripgrep=use_ripgrep)
    for mode in ("content", "count", "files_with_matches"):
        lines, notes = shown(PermissionManager([SECRETS]), root, tool, output_mode=mode)
        assert {each.split(":")[0] for each in lines} == OPEN | {"utf16"}
        assert notes == TWO


def test_a_name_that_is_suggested_is_none_that_is_kept_back(root):
    manager = PermissionManager([PermissionRule.deny_path("**/.env")])
    for name, hint in ((".envv", ""), ("b.txt", "did you mean b.py")):
        with pytest.raises(ToolError) as error:
            search(Read(), manager, context_of(root), file_path=f"src/{name}")
        assert error.value.hint == hint


def test_a_folder_that_is_denied_as_a_whole_is_judged_once(root, monkeypatch):
    plant(root, *(f"secrets/{number}" for number in range(200)))
    judged = []
    original = read_screen.evaluate
    monkeypatch.setattr(read_screen, "evaluate", lambda *a: judged.append(a) or original(*a))
    screen = PermissionManager([SECRETS, READING]).screen_reads(
        Grep(), {"pattern": "x"}, context_of(root), "."
    )
    before = len(judged)
    assert {screen(f"secrets/{number}") for number in range(200)} == {"denies"}
    assert {screen(f"src/{number}") for number in range(200)} == {""}
    assert len(judged) == before


def test_without_a_rule_about_files_there_is_no_screen(root):
    rules = [READING, PermissionRule.deny_command("rm"), PermissionRule.deny_domain("a.test")]
    call = (Grep(), {"pattern": "x"}, context_of(root), ".")
    assert PermissionManager(rules).screen_reads(*call) is None
    with pytest.raises(ValueError, match="not a usable path"):
        PermissionManager([SECRETS]).screen_reads(*call[:3], "a\0b")


NAMES = st.sampled_from(["a", "src", "secrets", "Key.pem", "k.txt", ".env", "é"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
PATTERNS = st.one_of(
    PATHS,
    PATHS.map("{}/**".format),
    PATHS.map("**/{}".format),
    st.sampled_from(["**", "*", "**/*.pem", "*/k.*", "secrets/*", "{a,src}/**", "SECRETS/**"]),
)
SUBJECTS = st.fixed_dictionaries(
    {}, optional={"tool": st.sampled_from(["Grep", "Glob", "Read"]), "path": PATTERNS}
).filter(bool)
RULES = st.builds(
    lambda decision, fields, **options: PermissionRule(
        decision=decision, matcher=RuleMatcher(**fields), **options
    ),
    st.sampled_from([ALLOW, DENY, DENY, ASK]),
    SUBJECTS,
    scope=st.sampled_from([RuleScope.USER, RuleScope.GLOBAL]),
    agent=st.sampled_from(["", "coder", "planner"]),
    priority=st.integers(0, 2),
    final=st.booleans(),
)
RULE_SETS = st.lists(RULES, min_size=1, max_size=4, unique_by=lambda rule: rule.id)
NUMBERS = itertools.count()


@given(
    st.sets(PATHS, min_size=1, max_size=6),
    RULE_SETS,
    st.none() | RULE_SETS,
    st.sampled_from([".", "a", "src", "link"]),
    st.sampled_from(["Grep rg", "Grep", "Glob rg", "Glob"]),
    st.sampled_from(["content", "count", "files_with_matches"]),
)
def test_a_line_is_shown_if_and_only_if_no_rule_keeps_its_file_back(
    tmp_path_factory, files, rules, above, folder, tool, mode
):
    root = Path(os.path.realpath(tmp_path_factory.mktemp("tree")))
    for path in sorted(files):
        if not any(path.startswith(f"{other}/") or other.startswith(f"{path}/") for other in files):
            plant(root, path)
    for each in ("a", "src"):
        if not (root / each).exists():
            (root / each).mkdir()
    (root / "link").symlink_to("src")
    if not (root / folder).is_dir():
        return
    manager, context = PermissionManager(rules), context_of(root)
    if above is not None:
        manager = PermissionManager(above).child(rules, context=context_of(root, "planner", "s-0"))
    kind = Grep if "Grep" in tool else Glob
    tool = kind(use_ripgrep="rg" in tool and shutil.which("rg") is not None)
    data = {"pattern": "SECRET" if kind is Grep else "**/*", "path": folder}
    if kind is Grep:
        data["output_mode"] = mode
    call = manager.judge(tool, data, context)
    if call.decision is DENY:
        return
    lines = search(tool, manager, context, **data)
    found = {line.split(":")[0] for line in lines if line[0] != "["} - {NONE}
    real = os.path.realpath(root / folder)
    for file in Path(real).rglob("*"):
        if file.is_file() and not file.is_symlink():
            name, path = str(file.relative_to(root)), str(file.relative_to(real))
            # The same file by the name that is shown, and by the one in the search.
            calls = [{"path": name}, {"path": f"{folder}/{path}"}]
            if kind is Glob:
                calls = [{"pattern": name}, {"pattern": path, "path": folder}]
            judged = [manager.judge(tool, {"pattern": "SECRET", **each}, context) for each in calls]
            objections = {each.rule for each in judged if each.decision is not ALLOW} - {None}
            if any(each.decision is DENY for each in judged):
                assert name not in found
            elif not objections and (above is None or all(x.decision is ALLOW for x in judged)):
                assert name in found
            elif above is None:
                answered = {each.rule for each in call.rulings if each.decision is ASK}
                assert (name in found) is (objections <= answered)

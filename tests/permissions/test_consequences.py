"""What a call does beyond the workspace and beyond itself, as the person is told who is asked."""

import pytest

from greenroom.core import AgentContext, Workspace
from greenroom.core._internal import PermissionEffects
from greenroom.permissions import PermissionManager, PermissionRule


@pytest.fixture
def root(tmp_path):
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def effects(root, tool, rules=(), **arguments):
    context = AgentContext(session_id="s", agent_type="a", workspace=Workspace(root))
    return PermissionManager(rules, read_only=False).explain(tool, arguments, context).effects


def of(root, command):
    return effects(root, "Bash", command=command)


@pytest.mark.parametrize(
    "command",
    [
        "make",
        "cat a.txt b/../c",
        "ls > out.txt",
        "ls 2> /dev/null",
        "echo /etc/passwd ~ ../x",
        "a=b",
    ],
)
def test_what_stays_in_the_workspace_has_none_but_its_variables(root, command):
    found = of(root, command)
    assert found == PermissionEffects(changes=found.changes)


@pytest.mark.parametrize(
    ("command", "kind", "told"),
    [
        ("make > ../log", "writes", "../log"),
        ("wc < /etc/hosts", "reads", "/etc/hosts"),
        ("cp a.txt /srv/x", "names", "/srv/x"),
        ("tar --file=/x/y.tar .", "names", "/x/y.tar"),
        ("curl -d @/etc/passwd", "names", "/etc/passwd"),
        ("cat a/../../b", "names", "a/../../b"),
        ("curl https://a.test/x?y", "hosts", "a.test"),
        ("curl https://good.test@evil.test/", "hosts", "https://good.test@evil.test/"),
        ("PATH=. make", "changes", "sets the variable PATH"),
        ("sudo make install", "privileges", "sudo make install"),
        ("/usr/bin/doas id", "privileges", "/usr/bin/doas id"),
        ("timeout 5 sudo id", "privileges", "sudo id"),
    ],
)
def test_what_goes_beyond_is_told_by_its_kind(root, command, kind, told):
    assert getattr(of(root, command), kind) == (told,)


def test_a_file_in_the_home_folder_is_told_by_its_path(root, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    assert of(root, "cat ~/.netrc").names == of(root, "cat $HOME/.netrc").names
    assert of(root, "cat ~/.netrc").names == ("/home/ada/.netrc",)


def test_a_tool_s_own_effects_are_told(root):
    assert effects(root, "Write", file_path="/etc/x", content="").writes == ("/etc/x",)
    assert effects(root, "Read", file_path="../y").reads == ("../y",)
    assert effects(root, "WebFetch", url="https://a.test/").hosts == ("a.test",)


def test_a_link_out_of_the_workspace_is_told_with_where_it_leads(root):
    (root / "link").symlink_to("/etc")
    assert of(root, "echo x > link/hosts").writes == ("link/hosts (which is /etc/hosts)",)
    assert of(root, "cat link/hosts").names == ("link/hosts (which is /etc/hosts)",)
    assert of(root, "cc -Ilink x.c").names == ("link (which is /etc)",)
    assert of(root, "cut -d/ -f1 a.txt").names == ()


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("frob a", ("frob",)),
        ("python a.py; /usr/bin/python b.py", ("python",)),
        ("timeout 5 bash run.sh | frob", ("bash", "frob")),
        ("make && npm test && sort -o a b", ()),
        ("uv run pytest", ()),
        ("frob $x", ()),  # it is not known what runs
    ],
)
def test_programs_are_told_that_may_read_files_which_no_table_lists(root, command, told):
    assert of(root, command).unchecked == told


def test_where_nobody_is_asked_they_are_not_looked_for(root):
    found = effects(root, "Bash", [PermissionRule.deny_all()], command="sudo id")
    assert found == PermissionEffects()


def test_a_long_list_is_bounded_and_hides_nothing(root):
    found = of(root, "cat " + " ".join(f"/x/{number}" for number in range(50)))
    assert len(found.names) == 21
    assert found.names[-1] == "and more"
    inside = " ".join(f"a{number}/../b" for number in range(300))
    assert of(root, f"cat {inside.replace('a', '../work/a')}").names == (
        "more, which were not looked at",
    )
    assert of(root, "cat " + "/x " * 1000).names == ("/x",)
    [name] = of(root, "cat '/x/\u202e" + "y" * 1000 + "'").names
    assert name.startswith("/x/\\u{202e}")
    assert len(name) < 400

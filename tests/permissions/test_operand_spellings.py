"""No spelling of a denied file or host passes, whichever word it is in."""

import pytest
from hypothesis import assume, given, strategies as st

from greenroom.permissions.operands import list_operands
from greenroom.programs._internal import Invocation
from greenroom.shell._internal import Command, Place, list_program_effects
from tests.permissions.secret_project import USUAL, build_project, hosts, judge


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return build_project(tmp_path_factory.mktemp("project"))


def spell_host(draw):
    """Write evil.test as some client reads it."""
    host = "".join(
        draw(st.sampled_from((ch, ch.upper(), f"%{ord(ch):02x}", chr(ord(ch) + 0xFEE0))))
        for ch in "evil.test"
    )
    before = draw(st.sampled_from(("", "http://", "HTTP:", "//", "ftp://u:p@", "u@", "x=", "a,")))
    after = draw(st.sampled_from(("", ".", ":80", ":a/b", "/x?y#z", ",b", "::m")))
    return f"{before}{host}{after}"


@given(st.data())
def test_no_spelling_of_a_host_passes(data):
    word = spell_host(data.draw)
    form = data.draw(
        st.sampled_from(
            (
                "{}",
                "-x {}",
                "-x{}",
                "-sx{}",
                "--proxy={}",
                "--proxy {}",
                "-o ProxyJump={}",
                "a {} b",
            )
        )
    )
    programs = (
        "curl",
        "wget",
        "git fetch",
        "git -c a.b=c clone",
        "ssh",
        "scp",
        "rsync",
        "npm",
        "x",
    )
    program = data.draw(st.sampled_from(programs))
    words = f"{program} {form.format(word)}".split()
    place = Place("/w", "/w")
    facts = list_program_effects(words, (), place)
    assert list(judge(facts, place, hosts("evil.test"))), words


def spell_path(draw, root):
    """Write secrets/key as a program in the folder `root` may read it."""
    start = draw(
        st.sampled_from(
            (
                "",
                "./",
                f"{root}/",
                "/proc/self/cwd/",
                "here/",
                "here/here/",
                "sub/../",
                "process/cwd/",
            )
        )
    )
    name = "".join(draw(st.sampled_from((ch, ch.upper()))) for ch in "secrets/key")
    between = draw(st.sampled_from(("/", "//", "/./", "/x/../")))
    name = draw(st.sampled_from((name.replace("/", between), "linked/key", "here/linked/KEY")))
    return f"{start}{name}"


@given(data=st.data())
def test_no_spelling_of_a_file_passes(data, project):
    path = spell_path(data.draw, project)
    forms = ("{}", "-x{}", "-abx{}", "--x={}", "x={}", "@{}", "a,{}", "{}:1", "<{}", "x:{}:y")
    form = data.draw(st.sampled_from(forms))
    assume(not (form == "x:{}:y" and ":" in path))
    program = data.draw(st.sampled_from(("cat", "frob", "git add", "curl -d", "sort", "tar cf x")))
    words = [*program.split(), form.format(path)]
    place = Place(str(project), str(project))
    facts = list_program_effects(words, (), place)
    assert any(each.startswith("denied") for each in judge(facts, place, USUAL)), words


WORDS = st.text(st.characters(codec="utf-8") | st.sampled_from("-=:@/,.[]{}*?%\\~!(){}'\"\0\ud800"))


@given(st.sampled_from(("git", "git show", "curl", "rg", "tar", "cat", "frob")), st.lists(WORDS))
def test_no_words_raise(program, words):
    place = Place("/w", "/w")
    argv = (*program.split(), *words)
    unknown = Invocation(argv)
    command = Command(argv=argv, place=place, invocation=unknown)
    for fact in (command, *list_program_effects(argv, (), place)):
        list(list_operands(fact, place, USUAL))

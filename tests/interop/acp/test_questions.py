"""Questions of every kind, as an agent's own code asks them."""

import pytest

from greenroom.core import Message
from greenroom.core._internal import PermissionEffects
from tests.interop.acp.editor import Opener, Refused, open_editor
from tests.interop.acp.test_sessions import begin, choose, say

FIELDS = {
    "type": "object",
    "properties": {"colour": {"type": "string"}},
    "required": ["colour"],
}


async def ask(tmp_path, request, *, abilities=None, **answers):
    """Let an agent ask; return the editor, and the answer that the agent has got."""
    got = []

    async def agent(internals, tools, permissions):
        async for message in internals.inputs():
            async with internals.turn(message):
                got.append(await internals.request_permission("Deploy", "deploy it", **request))
                internals.session.add_message(Message.assistant("done"))

    async with open_editor(Opener(agent), **(abilities or {})) as editor:
        editor.answers |= {name.replace("__", "/"): each for name, each in answers.items()}
        await say(editor, await begin(editor, tmp_path), "go")
        return editor, got[0]


def fill(**answer):
    async def answer_form(params):
        assert params["mode"] == "form"
        return answer

    return answer_form


FORM = {"elicitation": {"form": {}}}


async def test_fields_are_a_form(tmp_path):
    filled = fill(action="accept", content={"colour": "blue"})
    editor, answer = await ask(
        tmp_path,
        {"fields": FIELDS, "details": "Which?"},
        abilities=FORM,
        elicitation__create=filled,
    )
    assert answer.allowed
    assert answer.input == {"colour": "blue"}
    [(_, asked)] = editor.asked
    assert (asked["message"], asked["requestedSchema"]) == ("Which?", FIELDS)


@pytest.mark.parametrize(
    ("abilities", "answer"),
    [
        (FORM, {"action": "accept", "content": {"colour": 7}}),
        (FORM, {"action": "accept"}),
        (FORM, {"action": "decline"}),
        (FORM, {"action": "cancel"}),
        ({}, {"action": "accept", "content": {"colour": "blue"}}),
    ],
)
async def test_fields_without_a_usable_answer_are_denied(tmp_path, abilities, answer):
    _, got = await ask(
        tmp_path, {"fields": FIELDS}, abilities=abilities, elicitation__create=fill(**answer)
    )
    assert not got.allowed


async def test_a_credential_is_never_asked_for_in_an_editor(tmp_path):
    editor, answer = await ask(tmp_path, {"credential": "TOKEN"}, abilities=FORM)
    assert not answer.allowed
    assert "terminal" in answer.message
    assert editor.asked == []


@pytest.mark.parametrize(
    ("option", "allowed", "input"),
    [("once", True, None), ("ran", False, {"result": None}), ("no", False, None)],
)
async def test_a_call_that_may_have_run_has_its_own_answers(tmp_path, option, allowed, input):
    answers = {"session__request_permission": choose(option)}
    editor, answer = await ask(tmp_path, {"may_have_run": True}, **answers)
    assert (answer.allowed, answer.input) == (allowed, input)
    names = [each["name"] for each in editor.asked[0][1]["options"]]
    assert names == ["It did not run: run it", "It ran", "Leave it out"]


async def test_what_may_mislead_and_what_is_touched_is_said(tmp_path):
    request = {
        "details": "rm x\u202ey",
        "effects": PermissionEffects(
            writes=("/etc/hosts",), hosts=("example.com",), changes=("x",)
        ),
        "runs_as": "rm x",
    }
    editor, _ = await ask(tmp_path, request, session__request_permission=choose("no"))
    [(_, asked)] = editor.asked
    text = "\n".join(each["content"]["text"] for each in asked["toolCall"]["content"])
    assert "\u202e" not in str(asked)
    assert "rm x\\u{202e}y" in text
    assert "writes outside the workspace: /etc/hosts" in text
    assert "contacts: example.com" in text
    assert "besides: x" in text
    assert "read as: rm x" in text


async def test_an_editor_that_refuses_the_question_denies(tmp_path):
    async def refuse(params):
        raise Refused({"code": -32603, "message": "no window"})

    _, answer = await ask(tmp_path, {}, session__request_permission=refuse)
    assert (answer.allowed, answer.message) == (False, "The editor gave no answer: no window")

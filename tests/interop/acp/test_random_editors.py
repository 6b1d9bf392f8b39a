"""Editors that do anything at any moment: each request is answered, each call ends, all is valid.

`GREENROOM_ACP_SCRIPTS` is how many are tried.
"""

import os
import random
from contextlib import suppress

import pytest
import trio

from tests.interop.acp.editor import Refused, open_editor
from tests.interop.acp.test_sessions import opener

SCRIPTS = int(os.environ.get("GREENROOM_ACP_SCRIPTS", "3"))
STEPS = 40
TEXTS = (
    "read README.md",
    "write a.txt: hello",
    "edit README.md: replace ours with theirs",
    "run sleep 0.05",
    "ask a subagent to write b.txt: x",
    "list *.md",
    "hello",
)


class Script:
    """What one editor does, by chance."""

    def __init__(self, editor, folder, chance):
        self.editor, self.folder, self.chance = editor, str(folder), chance
        self.sessions, self.begun = [], []
        editor.answers |= {
            "session/request_permission": self.answer,
            "fs/read_text_file": self.read,
            "fs/write_text_file": self.refuse,
        }

    async def answer(self, params):
        match self.chance.randrange(5):
            case 0:
                await trio.sleep_forever()  # until the end of the script cancels the turn
            case 1:
                raise Refused({"code": -32603, "message": "no"})
            case 2:
                return {"outcome": {"outcome": "cancelled"}}
        chosen = self.chance.choice(params["options"])["optionId"]
        return {"outcome": {"outcome": "selected", "optionId": chosen}}

    async def read(self, params):
        if self.chance.random() < 0.5:
            raise Refused({"code": -32002, "message": "not open"})
        return {"content": "A text of ours that nobody has saved.\n"}

    async def refuse(self, params):
        raise Refused({"code": -32603, "message": "read-only"})

    async def step(self):
        where = {"cwd": self.folder, "mcpServers": []}
        session = self.chance.choice(self.sessions or ["s-unknown"])
        blocks = [{"type": "text", "text": self.chance.choice(TEXTS)}]
        actions = {
            "session/prompt": (8, {"sessionId": session, "prompt": blocks}),
            "session/new": (2, where),
            "session/load": (1, {"sessionId": session, **where}),
            "session/resume": (1, {"sessionId": session, **where}),
            "session/close": (1, {"sessionId": session}),
            "session/delete": (0.3, {"sessionId": session}),
            "session/list": (1, {}),
            "session/set_mode": (1, {"sessionId": session, "modeId": "plan"}),
        }
        kinds = [*actions, "cancel", "take back", "wait"]
        weights = [weight for weight, _ in actions.values()] + [4, 1, 4]
        [kind] = self.chance.choices(kinds, weights)
        match kind:
            case "cancel":
                await self.editor.tell("session/cancel", sessionId=session)
            case "take back" if self.begun:
                await self.editor.tell("$/cancel_request", requestId=self.chance.choice(self.begun))
            case "wait" | "take back":
                for _ in range(self.chance.randrange(300)):
                    await trio.lowlevel.checkpoint()
            case _:
                self.begun.append(await self.editor.begin(kind, **actions[kind][1]))
                if kind == "session/new":
                    await self.take_session(self.begun[-1])

    async def take_session(self, id_):
        with suppress(Refused):  # it may be taken back
            self.sessions.append((await self.editor.wait(id_))["sessionId"])

    async def end(self):
        """Cancel what is open until each request has its answer."""
        while open_ := [each for each in self.begun if not self.editor.is_answered(each)]:
            for session in self.sessions:
                await self.editor.tell("session/cancel", sessionId=session)
            with trio.move_on_after(0.1):  # a prompt may have begun its turn meanwhile
                await self.editor.until(lambda it: it.is_answered(open_[0]))


async def find_fault(editor, id_):
    """Return the code of the error that has answered a request, if it is one."""
    try:
        await editor.wait(id_)
    except Refused as error:
        return error.code


@pytest.mark.parametrize("seed", range(SCRIPTS))
async def test_each_request_is_answered_and_each_call_ends(seed, tmp_path):
    (tmp_path / "README.md").write_text("A text of ours.\n")
    sessions = opener()
    files = {"readTextFile": seed % 2 == 0, "writeTextFile": seed % 3 == 0}
    async with open_editor(sessions, fs=files) as editor:
        script = Script(editor, tmp_path, random.Random(seed))
        for _ in range(STEPS):
            await script.step()
        await script.end()
        codes = [await find_fault(editor, each) for each in script.begun]
        assert {*codes} <= {None, -32800, -32600, -32002}
    assert editor.faults == []
    last = {}
    for update in editor.shown("tool_call", "tool_call_update"):
        last[update["toolCallId"]] = update.get("status", last.get(update["toolCallId"]))
    assert {*last.values()} <= {"completed", "failed"}
    assert all(each.state.is_final for each in sessions.handles.values())

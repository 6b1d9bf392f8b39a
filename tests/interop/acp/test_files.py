"""Files through an editor: text that is not saved, and what an editor can't do."""

import pytest
import trio

from greenroom.testing import call
from tests.interop.acp.editor import Refused, open_editor
from tests.interop.acp.test_sessions import begin, choose, opener, say

BOTH = {"fs": {"readTextFile": True, "writeTextFile": True}}
READ = call("Read", file_path="a.py")
EDIT = call("Edit", file_path="a.py", old_string="typed", new_string="changed")
WRITE = call("Write", file_path="a.py", content="new\n")


class Buffers:
    """What an editor has open, by path; it saves what is written to it."""

    def __init__(self, editor, **texts):
        self.texts, self.written = texts, []
        editor.answers |= {
            "fs/read_text_file": self.read,
            "fs/write_text_file": self.write,
            "session/request_permission": choose("once"),
        }

    async def read(self, params):
        if params["path"] not in self.texts:
            raise Refused({"code": -32002, "message": "not open"})
        return {"content": self.texts[params["path"]]}

    async def write(self, params):
        self.written.append(params["path"])
        self.texts[params["path"]] = params["content"]
        await trio.Path(params["path"]).write_text(params["content"])
        return {}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("saved\n")
    return path


async def test_an_edit_is_made_in_the_text_that_is_not_saved(path):
    async with open_editor(opener(READ, EDIT, "done"), **BOTH) as editor:
        buffers = Buffers(editor)
        buffers.texts[str(path)] = "saved\ntyped\n"
        await say(editor, await begin(editor, path.parent), "go")
        assert path.read_text() == "saved\nchanged\n"
        assert buffers.written == [str(path)]
        [read, edited] = [
            each for each in editor.shown("tool_call_update") if each["status"] == "completed"
        ]
        assert "typed" in read["content"][0]["content"]["text"]
        assert edited["content"][0]["newText"] == "saved\nchanged"
        # The question shows the same change.
        [(_, question)] = [each for each in editor.asked if "permission" in each[0]]
        assert question["toolCall"]["content"][0]["oldText"] == "saved\ntyped"


async def test_what_the_person_types_meanwhile_is_not_overwritten(path):
    async with open_editor(opener(READ, WRITE, "done"), **BOTH) as editor:
        buffers = Buffers(editor)
        buffers.texts[str(path)] = "saved\n"
        session = await begin(editor, path.parent)

        async def type_first(params):
            buffers.texts[str(path)] += "typed\n"
            return await choose("once")(params)

        editor.answers["session/request_permission"] = type_first
        await say(editor, session, "go")
        assert buffers.texts[str(path)] == "saved\ntyped\n"
        end = editor.shown("tool_call_update")[-1]
        assert "has changed since it was read" in end["content"][0]["content"]["text"]


async def test_a_new_file_is_written_by_the_editor_in_a_folder_that_is_made(tmp_path):
    new = call("Write", file_path="deep/er/b.py", content="b\n")
    async with open_editor(opener(new, "done"), **BOTH) as editor:
        buffers = Buffers(editor)
        await say(editor, await begin(editor, tmp_path), "go")
        assert buffers.written == [str(tmp_path / "deep/er/b.py")]
        assert editor.shown("tool_call_update")[-1]["status"] == "completed"


@pytest.mark.parametrize(
    ("abilities", "methods"),
    [
        ({}, set()),
        ({"fs": {"readTextFile": True}}, {"fs/read_text_file"}),
        ({"fs": {"writeTextFile": True}}, {"fs/write_text_file"}),
    ],
)
async def test_an_editor_is_asked_only_for_what_it_can_do(path, abilities, methods):
    edit = call("Edit", file_path="a.py", old_string="saved", new_string="changed")
    async with open_editor(opener(READ, edit, "done"), **abilities) as editor:
        buffers = Buffers(editor)
        buffers.texts[str(path)] = "saved\ntyped\n" if "fs" in abilities else ""
        await say(editor, await begin(editor, path.parent), "go")
        assert {method for method, _ in editor.asked if method[:2] == "fs"} == methods
        has_read = "fs/read_text_file" in methods
        assert path.read_text() == ("changed\ntyped\n" if has_read else "changed\n")


async def test_what_the_editor_does_not_have_is_on_the_disk(path):
    async with open_editor(opener(READ, "done"), **BOTH) as editor:
        Buffers(editor)
        await say(editor, await begin(editor, path.parent), "go")
        end = editor.shown("tool_call_update")[-1]
        assert "saved" in end["content"][0]["content"]["text"]


async def test_what_is_no_text_is_never_asked_for(tmp_path):
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 100)
    (tmp_path / "b.bin").write_bytes(b"\0" * 100)
    (tmp_path / "large.txt").write_text("x\n" * 3_000_000)
    (tmp_path / "mark.txt").write_bytes("é\n".encode("utf-8-sig"))
    (tmp_path / "wide.txt").write_bytes("é\n".encode("utf-16"))
    (tmp_path / "latin.txt").write_bytes(b"x\n" * 10_000 + "é\n".encode("latin-1"))
    (tmp_path / "c.pdf").write_bytes(b"%PDF-1.4\n%%EOF\n")
    names = [*(each.name for each in tmp_path.iterdir()), "none"]
    reads = [call("Read", file_path=name) for name in names]
    async with open_editor(opener(*reads, "done"), **BOTH) as editor:
        Buffers(editor)
        session = await begin(editor, tmp_path)
        await say(editor, session, "go")
        assert editor.asked == []


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
async def test_another_encoding_stays_what_it_is(path, encoding):
    path.write_bytes("saved é\n".encode(encoding))
    edit = call("Edit", file_path="a.py", old_string="saved", new_string="changed")
    async with open_editor(opener(READ, edit, "done"), **BOTH) as editor:
        buffers = Buffers(editor)
        buffers.texts[str(path)] = "saved é\ntyped\n"
        await say(editor, await begin(editor, path.parent), "go")
        assert buffers.written == []
        assert path.read_bytes() == "changed é\n".encode(encoding)


async def test_a_refusal_to_write_is_an_error_of_the_call(path):
    async def refuse(params):
        raise Refused({"code": -32603, "message": "read-only buffer"})

    async with open_editor(opener(READ, WRITE, "done"), **BOTH) as editor:
        Buffers(editor)
        editor.answers["fs/write_text_file"] = refuse
        await say(editor, await begin(editor, path.parent), "go")
        end = editor.shown("tool_call_update")[-1]
        assert "read-only buffer" in end["content"][0]["content"]["text"]
        assert path.read_text() == "saved\n"


async def test_an_editor_that_does_not_answer_holds_up_no_cancel(path):
    async with open_editor(opener(READ, "done"), **BOTH) as editor:
        asked = trio.Event()

        async def never(params):
            asked.set()
            await trio.sleep_forever()

        Buffers(editor)
        editor.answers["fs/read_text_file"] = never
        session = await begin(editor, path.parent)
        blocks = [{"type": "text", "text": "go"}]
        prompt = await editor.begin("session/prompt", sessionId=session, prompt=blocks)
        await asked.wait()
        began = trio.current_time()
        await editor.tell("session/cancel", sessionId=session)
        assert await editor.wait(prompt) == {"stopReason": "cancelled"}
        assert trio.current_time() - began < 30


async def test_a_search_sees_the_disk(path):
    searches = [call("Grep", pattern=pattern) for pattern in ("saved", "typed")]
    async with open_editor(opener(*searches, "done"), **BOTH) as editor:
        buffers = Buffers(editor)
        buffers.texts[str(path)] = "saved\ntyped\n"
        await say(editor, await begin(editor, path.parent), "go")
        ends = editor.shown("tool_call_update")
        assert ["a.py" in each["content"][0]["content"]["text"] for each in ends] == [True, False]

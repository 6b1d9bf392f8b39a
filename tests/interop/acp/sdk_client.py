"""A client on the protocol's SDK, run by a Python that has it: `sdk_client.py FOLDER COMMAND …`.

It plays an editor with a text that is not saved, and prints one line of JSON of what came of it.
"""

import asyncio
import json
import sys
from pathlib import Path

import acp
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    ReadTextFileResponse,
    RequestPermissionResponse,
    WriteTextFileResponse,
)


class Editor(acp.Client):
    def __init__(self, texts):
        self.texts, self.kinds, self.option = texts, [], "allow_once"
        self.asked, self.has_asked = [], asyncio.Event()

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.asked.append(tool_call.title)
        self.has_asked.set()
        if self.option is None:
            await asyncio.sleep(600)
        chosen = next((each for each in options if each.kind == self.option), None)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        outcome = AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **kwargs):
        self.kinds.append(update.session_update)

    async def read_text_file(self, session_id, path, line=None, limit=None, **kwargs):
        if path not in self.texts:
            raise acp.RequestError.resource_not_found(path)
        return ReadTextFileResponse(content=self.texts[path])

    async def write_text_file(self, session_id, path, content, **kwargs):
        self.texts[path] = content
        Path(path).write_text(content)
        return WriteTextFileResponse()


async def say(connection, session, text):
    answer = await connection.prompt(session_id=session, prompt=[acp.text_block(text)])
    return answer.stop_reason


async def main(folder, command):
    path = str(folder / "a.py")
    Path(path).write_text("saved\n")
    editor = Editor({path: "saved\ntyped\n"})
    found = {}
    async with acp.spawn_agent_process(editor, *command) as (connection, process):
        files = FileSystemCapabilities(read_text_file=True, write_text_file=True)
        started = await connection.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(fs=files),
        )
        found["version"] = started.protocol_version
        opened = await connection.new_session(cwd=str(folder), mcp_servers=[])
        session = opened.session_id
        found["read"] = await say(connection, session, "read a.py")
        found["edit"] = await say(connection, session, "edit a.py: replace typed with changed")
        found["text"] = Path(path).read_text()
        editor.option = "reject_once"
        found["rejected"] = await say(connection, session, "write b.txt: x")
        found["b"] = (folder / "b.txt").exists()
        editor.option = None
        editor.has_asked.clear()
        turn = asyncio.ensure_future(say(connection, session, "write c.txt: x"))
        await editor.has_asked.wait()
        await connection.cancel(session_id=session)
        found["cancelled"] = await turn
        await connection.set_session_mode(session_id=session, mode_id="plan")
        editor.kinds, found["kinds"] = [], sorted({*editor.kinds})
        await connection.load_session(session_id=session, cwd=str(folder), mcp_servers=[])
        found["replayed"] = sorted({*editor.kinds})
        found["listed"] = [each.session_id for each in (await connection.list_sessions()).sessions]
        found["session"], found["asked"] = session, len(editor.asked)
        try:
            await connection.prompt(session_id="s-unknown", prompt=[acp.text_block("x")])
        except acp.RequestError as error:
            found["unknown"] = error.code
    found["exit"] = process.returncode
    print(json.dumps(found))


asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))

"""The compatibility kit of A2A's makers, against our server.

    git clone -b 1.0-dev https://github.com/a2aproject/a2a-tck FOLDER
    git -C FOLDER checkout 357c4a8
    python3 -m venv FOLDER/.venv && FOLDER/.venv/bin/pip install FOLDER
    python -m tests.interop.a2a_conformance FOLDER

The agent does what the kit's scenarios want, as the beginning of a message's id says. The kit knows
no tokens, so each of its requests gets one here. What may fail stands in `KNOWN` with its reason;
anything else that fails, or fewer than `LEAST` that pass, is an error.
"""

import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import trio

from greenroom import AgentRuntime, InMemoryStore
from greenroom.core import Custom, Message, TurnError
from greenroom.interop import ServerLimits, Tokens, WebServer
from greenroom.interop.serving.listener import serve_app

LEAST = 155
_TASKS = "this server always answers with a task, so that each can be cancelled and found again"
_SHOULD_FAIL = "the kit asks for the error ContentTypeNotSupportedError, and then for no error"
KNOWN = {
    "TestMessageResponse::test_returns_message_with_text_part[jsonrpc]": _TASKS,
    "TestMessageResponse::test_returns_message_with_text_part[http_json]": _TASKS,
    "test_requirements::test_must_requirement[CORE-SEND-003-jsonrpc]": _SHOULD_FAIL,
    "test_requirements::test_must_requirement[CORE-SEND-003-http_json]": _SHOULD_FAIL,
    "TestHttpJsonStatusCodes::test_content_type_not_supported_returns_415": (
        "the kit's table of statuses is older than the specification's, which has 400"
    ),
}
SECONDS = 900


async def obedient(agent):
    """Do what a scenario of the kit wants."""
    async for message in agent.inputs():
        async with agent.turn(message):
            save = agent.context.save_artifact
            match re.sub("^tck-", "", str(message.metadata["a2a.message"])):
                case word if word.startswith("input-required"):
                    said = "TCK history message"
                    while said.startswith("TCK history message"):
                        answer = await agent.request_permission("ask", "What else?", options=())
                        said = answer.message
                case word if word.startswith("reject-task"):
                    raise TurnError("rejected")
                case word if word.startswith("artifact-file-url"):
                    link = {"name": "output.txt", "url": "https://example.com/output.txt"}
                    await agent.send(Custom("artifact", {**link, "media_type": "text/plain"}))
                case word if word.startswith(("artifact-file", "stream-artifact-file")):
                    await save("output.txt", b"\xff no text", media_type="text/plain")
                case word if word.startswith("artifact-data"):
                    await save("data.json", '{"key": "value", "count": 42}')
                case word if word.startswith("stream-artifact-chunked"):
                    await save("out.txt", "chunk-1 ", complete=False)
                    await save("out.txt", "chunk-2", append=True)
                case word if word.startswith(("stream-", "artifact-")):
                    await save("out.txt", "Generated text content")
                case word if word.startswith("test-resubscribe"):
                    await trio.sleep(4)
            agent.session.add_message(Message.assistant("Hello from TCK"))


def with_token(app, token):
    """Return an application whose requests all have a token."""

    async def answer(scope, receive, send):
        headers = [*scope["headers"], (b"authorization", f"Bearer {token}".encode())]
        await app({**scope, "headers": headers}, receive, send)

    return answer


async def run(folder):
    """Run the kit; return pytest's report of it."""
    python = folder / ".venv" / "bin" / "python"
    report = folder / "junit.xml"
    tokens, token = Tokens.make("tck")
    async with AgentRuntime(InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        server = WebServer(runtime, {"tck": obedient}, tokens=tokens, a2a=True, page=False)
        app = with_token(server.app, token)
        serve = partial(serve_app, limits=ServerLimits(), grace=1)
        link = await nursery.start(serve, app, "127.0.0.1", 0)
        command = [python if python.exists() else sys.executable, "-m", "pytest", "-q"]
        command += ["tests/compatibility", f"--sut-host={link}", f"--junitxml={report}"]
        command += ["--transport=jsonrpc,http_json", "--tb=short", "-p", "no:cacheprovider"]
        with trio.fail_after(SECONDS):
            await trio.run_process(
                [*map(str, command)], cwd=folder, check=False, stdout=subprocess.DEVNULL
            )
        nursery.cancel_scope.cancel()
    return ElementTree.parse(report)


def main(folder):
    """Run the kit; return the exit code."""
    outcomes = {"passed": 0, "skipped": 0}
    failed = {}
    for case in trio.run(run, Path(folder).resolve()).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        problem = case.find("failure")
        problem = case.find("error") if problem is None else problem
        if problem is not None:
            failed[name] = problem.get("message", "")[:400]
        else:
            outcomes["passed" if case.find("skipped") is None else "skipped"] += 1
    new = failed.keys() - KNOWN.keys()
    for name, why in sorted(failed.items()):
        print(f"{'NEW ' if name in new else ''}failed {name}\n    {KNOWN.get(name, why)}")
    print(f"{outcomes['passed']} passed, {len(failed)} failed, {outcomes['skipped']} skipped")
    return 1 if new or outcomes["passed"] < LEAST else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

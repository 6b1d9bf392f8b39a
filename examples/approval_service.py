"""Approval in a web service: a question waits on disk, and any process may take the answer.

POST /ask {"text": "…"}                       -> {"status": "waiting", "session": …, "request": …}
POST /answer {"session": …, "request": …, "allow": true}          -> {"status": "completed", …}
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec

from greenroom import Agent, FileStore, ModelRequest, PermissionManager, PermissionRule
from greenroom.testing import ScriptedProvider, Step, call


def deploy(version: str) -> str:
    """Deploy a version of the shop."""
    with Path("deployed.txt").open("a") as file:
        file.write(f"{version}\n")
    return f"{version} is live"


def model() -> ScriptedProvider:  # or "anthropic:claude-sonnet-5-5", for all requests
    def reply(request: ModelRequest) -> Step:
        results = request.messages[-1].tool_results
        return f"Done: {results[0].text}." if results else call("deploy", version="1.2")

    return ScriptedProvider(reply, reply)


STORE = FileStore("conversations")
RULES = PermissionManager([PermissionRule.ask_for_tool("deploy")])


class Service(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = msgspec.json.decode(self.rfile.read(int(self.headers["Content-Length"])))
        agent = Agent(model(), tools=[deploy], permissions=RULES, name="deployer")
        if self.path == "/ask":
            result = agent.run_sync(body["text"], store=STORE, approve="later")
        else:
            answers = {body["request"]: bool(body["allow"])}
            result = agent.run_sync(
                session=body["session"], store=STORE, approve="later", answers=answers
            )
        answer: dict[str, object] = {"status": result.status, "text": result.text}
        answer["session"] = result.session.session_id
        for request in result.pending:
            answer |= {"request": request.request_id, "asks": f"{request.action} {request.input}"}
        data = msgspec.json.encode(answer)
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log no requests."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Service)
    print(server.server_port, flush=True)
    server.serve_forever()

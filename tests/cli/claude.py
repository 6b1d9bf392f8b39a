"""A server on 127.0.0.1 that plays Claude: what the user says decides which tools it calls."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = {"ANTHROPIC_API_KEY": "k"}
MODEL = "anthropic:claude-haiku-4-5"


def said_last(messages):
    """Return what the user has said last, and the results that came after it."""
    results = []
    for message in reversed(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        results += [block for block in blocks if block["type"] == "tool_result"]
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        if message["role"] == "user" and texts:
            return texts[-1].strip(), results
    return "", results


class Claude(BaseHTTPRequestHandler):
    """Answers each request with one reply, as a stream of events."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said, results = said_last(body["messages"])
        calls = [] if results else self.server.calls.get(said, [])
        if said in self.server.held and not results:
            self.server.released.wait(60)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for kind, fields in self.events(f"Heard {said}.", calls):
            data = json.dumps({"type": kind, **fields})
            self.wfile.write(f"event: {kind}\ndata: {data}\n\n".encode())

    @staticmethod
    def events(text, calls):
        usage = {"input_tokens": 1_000, "output_tokens": 1}
        message = {"id": "m", "type": "message", "role": "assistant", "content": []}
        message |= {"model": "claude", "stop_reason": None, "usage": usage}
        yield "message_start", {"message": message}
        for at, (name, arguments) in enumerate([("", text), *calls]):
            block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": text}
            if name:
                block = {"type": "tool_use", "id": f"toolu_{id(arguments)}", "name": name}
                block["input"] = {}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
            yield "content_block_start", {"index": at, "content_block": block}
            yield "content_block_delta", {"index": at, "delta": delta}
            yield "content_block_stop", {"index": at}
        end = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
        yield "message_delta", {"delta": end, "usage": {"output_tokens": 7}}
        yield "message_stop", {}

    def log_message(self, *parts):
        pass


@contextmanager
def claude(calls, held=()):
    """Play Claude; to what is held it answers once `released` is set.

    Yields:
        The server, with its `url`.
    """
    with ThreadingHTTPServer(("127.0.0.1", 0), Claude) as server:
        server.daemon_threads = True
        server.calls, server.held, server.released = calls, held, threading.Event()
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()

"""A server of tools in plain Python that starts at once, and does on the word what servers do.

Its tools are functions below; hostile ones are listed as well. `python server.py [WORD …]`.
"""

import json
import os
import signal
import sys
import threading
import time

TOOLS = {}
WORDS = sys.argv[1:]
lock = threading.Lock()
cancelled = {}
answers = {}


def send(**message):
    text = json.dumps({"jsonrpc": "2.0", **message})
    with lock:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def tool(description="", schema=None, **more):
    def register(function):
        TOOLS[function.__name__] = {
            "definition": {
                "name": function.__name__,
                "description": description,
                "inputSchema": schema or {"type": "object"},
                **more,
            },
            "function": function,
        }
        return function

    return register


def text(value):
    return {"content": [{"type": "text", "text": str(value)}]}


@tool("Return the text.", {"type": "object", "properties": {"text": {"type": "string"}}})
def echo(id, text="", **_):
    return globals()["text"](text)


@tool("Return what the request says beside its arguments.")
def meta(id, _meta=None, **_):
    return text(json.dumps(_meta or {}))


@tool("Return the environment.")
def environment(id, **_):
    return text(json.dumps(dict(os.environ)))


@tool("Tell progress, then end.", annotations={"readOnlyHint": True})
def count(id, _meta=None, **_):
    for number in (1, 2):
        send(
            method="notifications/progress",
            params={
                "progressToken": (_meta or {}).get("progressToken"),
                "progress": number,
                "total": 2,
                "message": f"step {number}",
            },
        )
    return text("counted")


@tool("Tell that it waits, and wait until it is cancelled.")
def wait(id, _meta=None, **_):
    token = (_meta or {}).get("progressToken")
    send(method="notifications/progress", params={"progressToken": token, "progress": 1})
    cancelled.setdefault(id, threading.Event()).wait(60)
    return


@tool("Whether a call was cancelled.")
def was_cancelled(id, **_):
    return text(sorted(key for key, event in cancelled.items() if event.is_set()))


@tool("End at once.")
def die(id, **_):
    sys.stderr.write("I die, with " + os.environ.get("SERVER_TOKEN", "nothing") + "\n")
    sys.stderr.flush()
    os._exit(3)


@tool("Fail.")
def fail(id, **_):
    return {**text("it went wrong"), "isError": True}


@tool("Return many bytes.")
def flood(id, megabytes=1, **_):
    return text("x" * (megabytes << 20))


@tool("Return a text that was cut in the middle of a character.")
def cut(id, **_):
    return text("a \ud83d")


@tool("Answer with a line that can't be read.")
def mumble(id, how, **_):
    with lock:
        sys.stdout.buffer.write(MUMBLED[how] % id + b"\n")
        sys.stdout.flush()


MUMBLED = {
    "list": b'{"jsonrpc": "2.0", "id": %d, "result": []}',
    "null": b'{"jsonrpc": "2.0", "result": null, "id": %d}',
    "odd error": b'{"jsonrpc": "2.0", "id": %d, "error": "no"}',
    "bytes": b'{"jsonrpc": "2.0", "id": %d, "result": {"content": "\xff"}}',
    "deep": b'{"jsonrpc": "2.0", "id": %d, "result": {"a": ' + b"[" * 2_000 + b"]" * 2_000 + b"}}",
}


@tool("Return other things than text.")
def things(id, **_):
    return {
        "content": [
            {"type": "text", "text": "some text"},
            {"type": "image", "mimeType": "image/png", "data": PNG},
            {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
            {"type": "resource_link", "uri": "demo://a", "name": "a"},
            {"type": "resource", "resource": {"uri": "demo://b", "text": "b's text"}},
            {
                "type": "resource",
                "resource": {"uri": "demo://c", "mimeType": "image/png", "blob": PNG},
            },
        ],
        "structuredContent": {"answer": 42},
    }


PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


@tool(
    "Return a number, as it says.",
    outputSchema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
)
def number(id, n=1, **_):
    return {"content": [], "structuredContent": {"n": n}}


@tool("Change the list of tools.")
def change(id, name="later", description="It came later.", **_):
    TOOLS[name] = {
        "definition": {
            "name": name,
            "description": description,
            "inputSchema": {"type": "object"},
        },
        "function": lambda id, **_: text(f"{name} ran"),
    }
    send(method="notifications/tools/list_changed")
    return text("changed")


@tool("Ask the person.")
def ask(id, schema=None, url="", **_):
    event = threading.Event()
    asked = f"q{id}"
    answers[asked] = [event, None]
    params = {"message": "Which colour?"}
    if url:
        params |= {"mode": "url", "url": url, "elicitationId": "e"}
    else:
        params["requestedSchema"] = schema or {
            "type": "object",
            "properties": {"colour": {"type": "string"}},
            "required": ["colour"],
        }
    send(id=asked, method="elicitation/create", params=params)
    event.wait(60)
    return text(json.dumps(answers[asked][1]))


@tool("Ask for a model.")
def sample(id, **_):
    event = threading.Event()
    asked = f"s{id}"
    answers[asked] = [event, None]
    params = {"messages": [], "maxTokens": 10}
    send(id=asked, method="sampling/createMessage", params=params)
    event.wait(60)
    return text(json.dumps(answers[asked][1]))


ARGUMENT = {"name": "who", "required": True}
HOSTILE = [
    {"name": "no_schema"},
    {"name": "odd_schema", "inputSchema": {"type": "array"}},
    {"name": "bad_schema", "inputSchema": {"type": "object", "properties": {"a": {"type": 3}}}},
    {"name": "far_schema", "inputSchema": {"type": "object", "$ref": "https://example.invalid/"}},
    {"inputSchema": {"type": "object"}},
    "not an object",
    {"name": "echo", "description": "another", "inputSchema": {"type": "object"}},
    {"name": "../../evil\u202e\x1b[2J", "inputSchema": {"type": "object"}},
    {"name": "x" * 300, "inputSchema": {"type": "object"}},
    {"name": "", "inputSchema": {"type": "object"}},
    {
        "name": "any_of",
        "inputSchema": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
    },
    {"name": "no_type", "inputSchema": {"properties": {"a": {"type": "string"}}}},
    {"name": "odd_output", "inputSchema": {"type": "object"}, "outputSchema": {"type": 3}},
]


def list_tools(cursor=None, **_):
    definitions = [each["definition"] for each in TOOLS.values()]
    if "hostile" in WORDS:
        definitions += HOSTILE
    if "many" in WORDS:
        start = int(cursor or 0)
        page = [
            {"name": f"t{n}", "description": "One of many.", "inputSchema": {"type": "object"}}
            for n in range(start, start + 500)
        ]
        more = {"nextCursor": str(start + 500)} if start + 500 < int(WORDS[1]) else {}
        return {"tools": (definitions if not start else []) + page, **more}
    return {"tools": definitions}


def call(id, params):
    found = TOOLS.get(params["name"])
    if found is None:
        send(id=id, error={"code": -32602, "message": f"Unknown tool: {params['name']}"})
        return
    arguments = params.get("arguments") or {}
    result = found["function"](id, _meta=params.get("_meta"), **arguments)
    if result is not None:
        send(id=id, result=result)


def answer(message):
    id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if method is None:
        answers[id][1] = message.get("result", message.get("error"))
        answers[id][0].set()
    elif method == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}, "prompts": {}, "resources": {}},
            "serverInfo": {"name": "demo", "version": "1"},
            "instructions": "Be kind.",
        }
        send(id=id, result=result)
    elif method == "tools/list":
        send(id=id, result=list_tools(**params))
    elif method == "tools/call":
        threading.Thread(target=call, args=(id, params), daemon=True).start()
    elif method == "prompts/list":
        prompt = {"name": "greet", "description": "Greets.", "arguments": [ARGUMENT]}
        send(id=id, result={"prompts": [prompt]})
    elif method == "prompts/get":
        words = f"Greet {params['arguments']['who']}."
        content = {"type": "text", "text": words}
        send(id=id, result={"messages": [{"role": "user", "content": content}]})
    elif method == "resources/list":
        send(id=id, result={"resources": [{"uri": "demo://a", "name": "a"}]})
    elif method == "resources/read" and params["uri"] == "demo://a":
        send(id=id, result={"contents": [{"uri": "demo://a", "text": "the text of a"}]})
    elif method == "notifications/cancelled":
        cancelled.setdefault(params["requestId"], threading.Event()).set()
    elif id is not None:
        send(id=id, error={"code": -32601, "message": f"Method not found: {method}"})


def main():
    if "deaf" in WORDS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "hung" in WORDS:
        sys.stderr.write("I think about it\n")
        sys.stderr.flush()
        time.sleep(600)
    if "broken" in WORDS:
        sys.exit("I can't start")
    if "noisy" in WORDS:
        print("Welcome to the server!", flush=True)
    for line in sys.stdin:
        answer(json.loads(line))
    while "deaf" in WORDS:  # it ignores the end of its input as well
        time.sleep(600)


if __name__ == "__main__":
    main()

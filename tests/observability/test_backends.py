"""What the page about backends says to set is what reaches a collector, with its path and keys."""

import os
import re
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.warm_python import run_warm

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "trace-backends.md").read_text()
(PROGRAM,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
KEYS = {
    "LOGFIRE_TOKEN": "pylf_v1_us_0",
    "LANGFUSE_PUBLIC_KEY": "pk-lf-1",
    "LANGFUSE_SECRET_KEY": "sk-lf-2",
    "PHOENIX_API_KEY": "px-3",
}
EXPECTED = {
    "Logfire": ("/v1/traces", {"authorization": "pylf_v1_us_0"}),
    "Langfuse": (
        "/api/public/otel/v1/traces",
        {
            "authorization": "Basic cGstbGYtMTpzay1sZi0y",
            "x-langfuse-ingestion-version": "4",
        },
    ),
    "Phoenix": ("/v1/traces", {"authorization": "Bearer px-3"}),
    "A collector, Jaeger, Tempo": ("/v1/traces", {}),
}


class Collector(BaseHTTPRequestHandler):
    """Takes OTLP over HTTP."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append((self.path, headers, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    server.requests = []
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_every_backend_of_the_page_is_tried():
    assert set(re.findall(r"^## (.*)\n(?:(?!^## ).*\n)*?```sh", PAGE, re.MULTILINE)) == {*EXPECTED}


@pytest.mark.parametrize("backend", EXPECTED)
def test_a_backend_gets_the_spans_at_its_path_with_its_headers(backend, collector, tmp_path):
    section = PAGE.partition(f"## {backend}\n")[2].partition("\n## ")[0]
    (shell,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    here = f"http://127.0.0.1:{collector.server_port}"
    shell = re.sub(r"(ENDPOINT=)https?://[^/\s]+", rf"\g<1>{here}", shell)
    program = f"{PROGRAM}\ntrio.run(main)\n"
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    told = subprocess.check_output(["sh", "-euc", f"{shell}\nenv -0"], env=kept | KEYS, text=True)
    env = dict(each.split("=", 1) for each in told.split("\0") if each)
    code, _, errors = run_warm(["-c", program], tmp_path, env)
    assert (code, errors) == (0, "")
    path, headers = EXPECTED[backend]
    names, services = [], set()
    for got, sent, body in collector.requests:
        assert got == path
        assert headers.items() <= sent.items()
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            attributes = {each.key: each.value for each in resource.resource.attributes}
            services.add(attributes["service.name"].string_value)
            names += [each.name for scope in resource.scope_spans for each in scope.spans]
    assert services == {"shop"}
    assert sorted(name.split()[0] for name in names) == ["chat", "invoke_agent"]

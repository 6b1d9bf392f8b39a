"""The coding agent served by a server of somebody else: LiteLLM's proxy, where it is installed.

GREENROOM_LITELLM names its program. It wants an environment of its own, since it pins what we use:
`python3 -m venv /tmp/litellm && /tmp/litellm/bin/pip install 'litellm[proxy]'`.
"""

import os
import socket
from pathlib import Path

import pytest
import trio

from tests.e2e.test_repair import greenroom

PROXY = os.environ.get("GREENROOM_LITELLM", "")
KEY = "sk-a-key-that-only-this-test-knows"
HERE = Path(__file__).parent / "litellm"

DIALECTS = {
    "anthropic": ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", ""),
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_KEY", "/v1"),
}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.fixture
async def proxy(nursery, tmp_path):
    """The proxy's address, once it says that it listens."""
    port, output = free_port(), bytearray()
    process = await trio.lowlevel.open_process(
        [PROXY, "--config", str(HERE / "proxy.yaml"), "--host", "127.0.0.1", "--port", str(port)],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(HERE)},
        stdout=-1,
        stderr=-2,
    )
    listening = trio.Event()

    async def drain():
        async for data in process.stdout:
            output.extend(data)
            if b"Uvicorn running" in output:
                listening.set()

    nursery.start_soon(drain)
    try:
        with trio.fail_after(180):
            await listening.wait()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


if PROXY:

    @pytest.mark.parametrize("dialect", DIALECTS)
    async def test_the_coder_works_behind_the_proxy(proxy, dialect, tmp_path):
        project = tmp_path / "project"
        project.mkdir()
        (project / "notes.txt").write_text("the kettle is on")
        base, key, suffix = DIALECTS[dialect]
        environment = {base: proxy + suffix, key: KEY}
        for model, said in (("mock-coder", "the kettle is on"), ("mock-words", "from the mock")):
            done = await greenroom(
                *("-p", "What do the notes say?", "--model", f"{dialect}:{model}"),
                cwd=project,
                **environment,
            )
            assert (done.returncode, done.stderr) == (0, b"")
            assert said in done.stdout.decode()

"""Tools of a sandboxed process, at the top of a module, where that process finds them."""

import os
import socket
import time
from pathlib import Path

from greenroom.core import AgentContext
from greenroom.tools import ProcessLimits, Sandbox, tool


@tool(isolation="process", sandbox=Sandbox())
def write_text(path: str) -> str:
    """Write a file."""
    Path(path).write_text("written")
    return "written"


@tool(isolation="process", sandbox=Sandbox(network="none"))
def reach(port: int) -> str:
    """Connect to a port of this machine."""
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return "reached"


@tool(isolation="process", timeout=60, sandbox=Sandbox())
def clean_up_after(path: str, context: AgentContext) -> None:
    """Wait, and write a file when it is stopped."""
    try:
        context.progress("begun")
        time.sleep(600)
    finally:
        Path(path).write_text("cleaned")


@tool(isolation="process", sandbox=Sandbox())
def process_id() -> str:
    """Return what identifies this process, and the folder for its temporary files."""
    return f"{os.getpid()} {os.readlink('/proc/self/ns/pid')} {os.environ['TMPDIR']}"


@tool(isolation="process", sandbox=Sandbox(), limits=ProcessLimits(cpu_seconds=1))
def compute_on() -> None:
    """Compute without an end."""
    while True:
        pass


@tool(isolation="process", sandbox=Sandbox(limits=ProcessLimits(file_megabytes=1)))
def write_long(path: str) -> str:
    """Write more than a file may hold."""
    Path(path).write_bytes(bytes(3 << 20))
    return "written"


@tool(isolation="process", sandbox=Sandbox(require=frozenset({"disk"})))
def need_everything() -> str:
    """Need what no machine holds."""
    return "run"

"""Other frameworks in the same table, in environments of their own, at frozen versions.

Each module has the workloads that its framework can do, as its documentation shows them. None has
a store, permissions or durable writes on.
"""

import subprocess
import sys
import venv
from pathlib import Path

PACKAGES = {
    "pydantic_ai": {"pydantic-ai-slim[openai]": "2.68.0"},
    "openai_agents": {"openai-agents": "0.24.0"},
    "langgraph": {"langgraph": "1.2.24", "langchain": "1.5.2", "langchain-openai": "1.7.4"},
    "agent_framework": {"agent-framework-core": "1.23.0", "agent-framework-openai": "1.17.0"},
}
CLIENT = {"openai": "3.57.0"}
"""What all of them send requests with."""

VERSIONS = {name.partition("[")[0]: v for each in PACKAGES.values() for name, v in each.items()}


def install(folder: Path) -> dict[str, str]:
    """Make an environment for each in a folder, where it is missing; return their Pythons."""
    pythons = {}
    for name, packages in PACKAGES.items():
        home = folder.resolve() / name
        python = home / "bin" / "python"
        if not python.exists():
            print(f"installing {name}", file=sys.stderr)
            venv.create(home, with_pip=True)
        pinned = [f"{package}=={version}" for package, version in (packages | CLIENT).items()]
        command = [python, "-m", "pip", "install", "--quiet", *pinned]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        pythons[name] = str(python)
    return pythons

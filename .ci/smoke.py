"""Tries an installed Greenroom: its files are complete, an agent runs, and so does the program.

python .ci/smoke.py REPOSITORY, from another folder, by the Python that has it installed.
"""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import greenroom
from greenroom import Agent
from greenroom.testing import ScriptedProvider, call


def main(repository: Path) -> None:
    """Raise what is wrong."""
    package = Path(greenroom.__file__).parent
    assert not package.is_relative_to(repository), f"{package} is not what was installed"
    assert list_files(package) == list_files(repository / "greenroom")
    assert version("greenroom") == greenroom.__version__

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    agent = Agent(ScriptedProvider(call("add", a=2, b=3), "Five."), tools=[add])
    assert agent.run_sync("Two and three?").output == "Five."
    shown = subprocess.run(
        [sys.executable, "-m", "greenroom", "--version"], capture_output=True, text=True, check=True
    )
    assert greenroom.__version__ in shown.stdout
    print(f"greenroom {greenroom.__version__} works in {package}")


def list_files(package: Path) -> set[str]:
    """Return the package's files, without what Python compiles."""
    files = (path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(package)) for path in files}


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())

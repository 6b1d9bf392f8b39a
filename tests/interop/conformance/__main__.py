"""The suite of the protocol's authors, against our client and our server.

    npm install --prefix FOLDER node@24 @modelcontextprotocol/conformance@0.2.0-alpha.12
    python -m tests.interop.conformance FOLDER [client | server] [2025-11-25 | 2026-07-28]

Each scenario that an era requires is run: as a client through `MCPServers`, logins included; as a
server through `serve_mcp`. What that does not offer (prompts, resources, completion, sampling,
logging, lists that change) is run against a program on the SDK alone, and marked `sdk`.
"""

import argparse
import os
import re
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ERAS = ("2025-11-25", "2026-07-28")
SECONDS = 120
SDK = re.compile(
    "completion|resources|prompts|sampling|logging|sep-2164|server-stateless|caching|list-roots"
    "|multiple-input|non-tool|capability-check"
)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


class Suite:
    """The suite in a folder of npm."""

    def __init__(self, folder: Path) -> None:
        package = folder / "node_modules" / "@modelcontextprotocol" / "conformance"
        node = folder / "node_modules" / ".bin" / "node"  # else a new one of the system
        self._command = [str(node) if node.exists() else "node", f"{package}/dist/index.js"]
        self._requirements = package / "requirements"

    def required(self, side: str, era: str) -> list[str]:
        """Return the scenarios that an era requires of one side."""
        text = (self._requirements / f"{era}.yaml").read_text()
        listed = text.split(f"\n{side}:\n")[1].split("\n\n")[0]
        return re.findall(r"^  - (\S+)$", listed, re.MULTILINE)

    def run(self, side: str, era: str, scenario: str, *words: str) -> str:
        """Run a scenario; return why it failed, or nothing."""
        options = ["--scenario", scenario, "--spec-version", era, "--timeout", f"{SECONDS}000"]
        done = subprocess.run(
            [*self._command, side, *words, *options, *(["--verbose"] if side == "client" else [])],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=SECONDS + 60,
            check=False,
        )
        if done.returncode == 0 and not re.search("FAILURE|WARNING", done.stdout):
            return ""
        found = re.findall(r"(?:Error|errorMessage\"): ?(.+)", done.stdout)
        return "; ".join(found)[:500] or (done.stdout + done.stderr)[-500:]

    def run_all(self, side: str, era: str, folder: Path, *words: str) -> str:
        """Run all that an era requires in one process; return what it prints.

        What the server does not offer has to fail: the baseline lists it.
        """
        options = ["--requirements", era, "--timeout", f"{SECONDS}000"]
        if side == "server":
            lacking = [each for each in self.required(side, era) if SDK.search(each)]
            baseline = folder / "baseline.yaml"
            baseline.write_text("server:\n" + "".join(f"  - {each}\n" for each in lacking))
            options += ["--expected-failures", str(baseline)]
        done = subprocess.run(
            [*self._command, side, *words, *options],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=2 * SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
        return done.stdout


@contextmanager
def running(program: str):
    """Run a server of this folder, and yield its URL."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / program)], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("only", nargs="*", choices=["client", "server", *ERAS, []])
    given = parser.parse_args()
    suite, failed = Suite(given.folder.resolve()), 0
    client = f"{sys.executable} {HERE / 'client.py'}"
    with ExitStack() as stack:
        urls = {}
        for side in ("client", "server"):
            for era in ERAS:
                if {*given.only} - {side, era} & {*given.only}:
                    continue
                scenarios = suite.required(side, era)
                passed = {"": 0, " sdk": 0}
                for scenario in scenarios:
                    mark = " sdk" if side == "server" and SDK.search(scenario) else ""
                    words = ["--command", client]
                    if side == "server":
                        program = "sdk_server.py" if mark else "our_server.py"
                        if program not in urls:
                            urls[program] = stack.enter_context(running(program))
                        words = ["--url", urls[program]]
                    why = suite.run(side, era, scenario, *words)
                    print(
                        f"{'FAIL' if why else 'ok  '}{mark} {side} {era} {scenario} {why}".rstrip()
                    )
                    passed[mark] += not why
                    failed += bool(why)
                told = (
                    f" ({passed[' sdk']} of them against the SDK alone)" if passed[" sdk"] else ""
                )
                print(f"{side} {era}: {sum(passed.values())} of {len(scenarios)} passed{told}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())

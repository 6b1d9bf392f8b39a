"""A program that drives Greenroom as a process: it sends inputs, and answers the questions.

    python examples/drive.py

The run is asked to write two files. This program allows one of them, denies the other with a
reason, and prints what each input came to.
"""

import json  # noqa: TID251 (what a program without Greenroom would use)
import subprocess
import sys
from collections.abc import Iterable

COMMAND = [sys.executable, "-m", "greenroom", "-p", "--model", "offline:"]
COMMAND += ["--input-format", "stream-json", "--output-format", "stream-json"]


class Run:
    """A run of Greenroom: one JSON object a line in both directions."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Talk to this process over its pipes."""
        assert process.stdin is not None
        assert process.stdout is not None
        self.input, self.lines = process.stdin, process.stdout

    def ask(self, text: str, allowed: Iterable[str]) -> str:
        """Send an input, allow only these files to be written, and say what it came to."""
        self.send({"type": "user", "message": {"role": "user", "content": text}})
        for line in self.lines:
            chunk = json.loads(line)
            if chunk["type"] == "permission_request":
                is_allowed = chunk["input"].get("file_path") in allowed
                answer = (
                    {"choice": "once"} if is_allowed else {"choice": "no", "reason": "not this"}
                )
                self.send({"type": "answer", "request_id": chunk["request_id"], **answer})
            elif chunk["type"] == "result":
                return f"{chunk['status']}, {len(chunk['denials'])} denied"
        raise EOFError("the run has ended")

    def end(self) -> None:
        """Say that nothing more comes, and read on until the run has ended."""
        self.input.close()
        for _ in self.lines:
            pass

    def send(self, line: dict[str, object]) -> None:
        """Write one line."""
        self.input.write(json.dumps(line) + "\n")
        self.input.flush()


def main() -> None:
    """Ask for two files, and end the run by the end of its input."""
    with subprocess.Popen(  # noqa: S603 (our own words)
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        run = Run(process)
        for name in ("notes.txt", "secret.txt"):
            print(f"{name}: {run.ask(f'write {name}: hello', allowed=['notes.txt'])}")
        run.end()
    print(f"exit code {process.returncode}")


if __name__ == "__main__":
    main()

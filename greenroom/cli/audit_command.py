"""`greenroom audit`: whether an audit is as it was written, and what stands there."""

from pathlib import Path

import trio

from greenroom.cli.command_options import AuditOptions
from greenroom.cli.options import FAILED
from greenroom.cli.stdio import OutputWriter
from greenroom.core import ConfigurationError
from greenroom.core._internal import InvalidJSONError, serde, visible
from greenroom.observability import AuditReport, verify_audit
from greenroom.observability._internal import AuditError

_SHOWN = ("seq", "at", "agent", "event", "tool", "who", "rule", "status", "decision")


async def verify(options: AuditOptions) -> int:
    """Check an audit, and print how many lines fit and what does not; 1 if something does not.

    Raises:
        AuditError: it can't be read.
        ConfigurationError: the file of the key can't be read.
        OSError: standard output can't be written.
    """
    report = await trio.to_thread.run_sync(_check, options)
    output = OutputWriter()
    if options.json:
        await output.line(serde.encode(report))
    else:
        what = "all is as it was written" if report.ok else report.fault
        await output.text(f"{report.lines} lines fit; {what}\nhead {report.head}")
    return 0 if report.ok else FAILED


async def show(options: AuditOptions) -> int:
    """Print the lines of an audit as a table; those that can't be read are marked.

    Raises:
        AuditError: it can't be read.
        OSError: standard output can't be written.
    """
    rows = await trio.to_thread.run_sync(_read_rows, options.file)
    output = OutputWriter()
    if options.json:
        for row in rows:
            await output.line(serde.encode(row))
    else:
        table = [tuple(visible(str(row.get(name, ""))) for name in _SHOWN) for row in rows]
        await output.table(_SHOWN, table)
    return 0


def _check(options: AuditOptions) -> AuditReport:
    """Check it with the key as it is in the file, and without the blanks around it.

    An editor ends a key of letters with a newline; a random one may end with such a byte itself.
    """
    key = _read_key(options.key_file) if options.key_file else None
    keys = dict.fromkeys((key,) if key is None else (key, key.strip()))
    reports = (verify_audit(options.file, each, options.head) for each in keys)
    return max(reports, key=lambda report: (report.ok, report.lines))


def _read_key(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"the key in {path} can't be read: {error.strerror}") from error


def _read_rows(path: str) -> list[dict[str, object]]:
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise AuditError(f"the audit {path} can't be read: {error.strerror}") from error
    return [_read_row(line) for line in lines]


def _read_row(line: bytes) -> dict[str, object]:
    try:
        row = serde.loads(line)
    except InvalidJSONError:
        row = None
    return dict(row) if isinstance(row, dict) else {"event": "(a line that can't be read)"}

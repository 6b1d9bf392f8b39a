"""The execution of a call: input validated, time bounded, failures made results, output cut.

`RegisteredTool.execute` is the gate for every call. `cut_text` bounds what a call returns, and
`LiveOutput` what it shows while it runs.
"""

import errno
import logging
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import trio
from msgspec import Struct
from msgspec.structs import replace

from greenroom.core import (
    AgentContext,
    AgentCrashError,
    Credential,
    Opaque,
    SessionError,
    TextBlock,
    ToolError,
    ToolInfo,
    ToolResult,
    ToolRun,
    ToolStatus,
    Workspace,
)
from greenroom.core._internal import (
    MAX_ERROR_TEXT,
    SESSION_PREFIX,
    Effect,
    KeptFiles,
    SandboxReport,
    clip,
    compile_later,
    conceal,
    conceal_secrets,
    conceal_texts,
    describe_error,
    exact,
    is_a,
    leaves,
    log_error,
    message_of,
    new_id,
    quantity,
    serde,
    thaw,
    type_name,
    valid_unicode,
    visible,
)
from greenroom.sandbox._internal import Sandbox, check_required, describe_sandbox
from greenroom.schemas._internal import InputValidator
from greenroom.threads._internal import run_heavy
from greenroom.tools.blocking import hint_at_loop
from greenroom.tools.compiled_schemas import compile_schema
from greenroom.tools.interface import (
    DEFAULT_TIMEOUT,
    EffectsFunction,
    PrecheckFunction,
    PreviewFunction,
    Tool,
    ToolFlags,
    check_tool,
    plain_info,
    read_credentials,
)
from greenroom.tools.output_check import OutputValidator
from greenroom.tools.returned_values import leave_out_faulty_media, read_result

_MAX_LEAVES = 5
_PASSING = (trio.Cancelled, KeyboardInterrupt, GeneratorExit, AgentCrashError)
"""Exceptions that end more than the call; all others become its result."""
_log = logging.getLogger("greenroom.tools")


class RegisteredTool(Struct, frozen=True, kw_only=True):
    """A view of a tool with every member, also those that the tool leaves out; itself a `Tool`.

    Its `execute` is the gate that `ToolRegistry.execute` describes.

    Attributes:
        name: the name for the model.
        description: what it does, for the model.
        category: the kind, for permission rules.
        parameters: the JSON Schema of its input.
        requires_permission: whether each call has to be allowed.
        timeout: seconds that one call may take.
        concurrent: whether a call may run beside others.
        sandbox: the sandbox of each call, or None.
        credentials: what the person has to give before a call runs.
        read_only: whether a call changes nothing; None if unknown, as for the next two.
        idempotent: whether a repeated call changes nothing more.
        destructive: whether a call may delete something for good.
        version: the tool's own version, for the metadata of results; empty without one.
        definition_hash: a digest of what a tool from elsewhere says of itself; empty for others.
        is_offered: whether models are told of it with each request.
    """

    name: str
    description: str
    category: str
    parameters: dict[str, object]
    requires_permission: bool = True
    timeout: float = DEFAULT_TIMEOUT
    concurrent: bool = False
    sandbox: Sandbox | None = None
    credentials: tuple[Credential, ...] = ()
    read_only: bool | None = None
    idempotent: bool | None = None
    destructive: bool | None = None
    version: str = ""
    definition_hash: str = ""
    is_offered: bool = True
    tool: Tool
    validator: InputValidator
    output_validator: OutputValidator | None = None

    @classmethod
    def of(cls, tool: Tool) -> "RegisteredTool":
        """Check a tool and fill in the members that it leaves out.

        Raises:
            ToolError: a member is missing or unusable; the message says which, and why.
        """
        if isinstance(tool, RegisteredTool):
            return tool
        check_tool(tool)
        validator = compile_schema(InputValidator, tool.name, tool.parameters)
        output: Mapping[str, object] | None = getattr(tool, "output_schema", None)
        flags = ToolFlags.of(tool)
        return cls(
            name=tool.name,
            description=tool.description,
            category=tool.category,
            parameters=validator.schema,
            requires_permission=bool(getattr(tool, "requires_permission", True)),
            timeout=float(getattr(tool, "timeout", DEFAULT_TIMEOUT)),
            concurrent=bool(getattr(tool, "concurrent", flags.read_only)),
            sandbox=getattr(tool, "sandbox", None),
            credentials=read_credentials(tool),
            read_only=flags.read_only,
            idempotent=flags.idempotent,
            destructive=flags.destructive,
            version=str(getattr(tool, "version", "") or ""),
            definition_hash=str(getattr(tool, "definition_hash", "") or ""),
            is_offered=bool(getattr(tool, "is_offered", True)),
            tool=tool,
            validator=validator,
            output_validator=(
                None if output is None else compile_schema(OutputValidator, tool.name, output)
            ),
        )

    @property
    def output_schema(self) -> dict[str, object] | None:
        """The JSON Schema of its results, or None."""
        return self.output_validator.schema if self.output_validator else None

    @property
    def runs_context_command(self) -> bool:
        """Whether a call runs the command of its context, as it was judged."""
        return bool(getattr(self.tool, "runs_context_command", False))

    @property
    def runs_on_client(self) -> bool:
        """Whether a call only waits for the result that the client sends."""
        return bool(getattr(self.tool, "runs_on", "") == "client")

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Describe a call for a person, with hidden characters made visible. Never raises."""
        try:
            return self._reveal(self.tool.info(thaw(input)))
        except (Exception, SystemExit) as error:  # noqa: BLE001  (an unchecked input may upset any tool)
            log_error(_log, f"tool {self.name} could not describe a call", error, logging.DEBUG)
            return self._reveal(plain_info(self.name, input))

    async def preview(self, input: dict[str, object], context: AgentContext) -> ToolInfo:  # noqa: A002
        """Describe a call as `info` does, with what it would change as things are now.

        Whoever is about to ask a person may look first. It takes at most the tool's time.
        """
        method = cast("PreviewFunction | None", getattr(self.tool, "preview", None))
        if method is not None:
            try:
                with trio.move_on_after(self.timeout):
                    return self._reveal(await method(thaw(input), context))
            except Exception as error:  # noqa: BLE001  (the call itself will tell)
                hide = partial(_conceal_all, context=context)
                what = f"tool {self.name} could not look at a call"
                log_error(_log, what, error, logging.DEBUG, conceal=hide)
        return self.info(input)

    def _reveal(self, info: ToolInfo) -> ToolInfo:
        """Make hidden characters visible, and say where a call may destroy something."""
        warning = " (it may destroy what can't be brought back)" if self.destructive else ""
        action = " ".join(exact(info.action).split()) + warning
        return ToolInfo(action, visible(info.details), visible(info.diff), visible(info.claim))

    def fault(self, input: dict[str, object]) -> str | None:  # noqa: A002
        """Return the faults of an input, in words for the model; None if it fits."""
        return self.validator.fault(input)

    async def check(self, input: dict[str, object]) -> tuple[dict[str, object], str | None]:  # noqa: A002
        """Return the input as the tool gets it, and its faults, if any, in words for the model.

        Values that were sent as JSON in strings are parsed; see `InputValidator.examine`. `execute`
        does the same; a caller may check first, before it asks a person.
        """
        return await self.validator.check(input)

    def effects(self, input: dict[str, object], context: AgentContext) -> tuple[Effect, ...]:  # noqa: A002
        """State what a call would do; empty if the tool states nothing.

        Never raises: if the tool's own method does, the effect is `Opaque`, which no rule on
        effects allows.
        """
        stated = cast("EffectsFunction | None", getattr(self.tool, "effects", None))
        if stated is None:
            return ()
        try:
            return tuple(stated(thaw(input), context))
        except (Exception, SystemExit) as error:  # noqa: BLE001  (as above)
            log_error(_log, f"tool {self.name} could not state its effects", error, logging.DEBUG)
            return (Opaque(f"{self.name} can't tell what this does: {type(error).__name__}"),)

    async def precheck(
        self,
        input: dict[str, object],  # noqa: A002
        context: AgentContext,
    ) -> ToolResult | None:
        """Return the error of a call that can't succeed, before it runs; None if it may.

        Whoever is about to ask a person may look first. It takes at most the tool's time, and only
        a `ToolError` counts against the call.
        """
        method = cast("PrecheckFunction | None", getattr(self.tool, "precheck", None))
        if method is None:
            return None
        try:
            with trio.move_on_after(self.timeout):
                await method(thaw(input), context)
        except ToolError as error:
            text, kind = describe_failure(error), type_name(error)
            return conceal(ToolResult.error(text, could_run=False, error=kind), context)
        except Exception as error:  # noqa: BLE001  (as above: the call itself will tell)
            hide = partial(_conceal_all, context=context)
            what = f"tool {self.name} could not look at a call"
            log_error(_log, what, error, logging.DEBUG, conceal=hide)
        return None

    async def examine_sandbox(self, workspace: Workspace) -> SandboxReport | None:
        """Report what the sandbox of a call in a workspace enforces here; None without a sandbox.

        Raises:
            SandboxUnavailableError: the sandbox requires what nothing here can enforce.
            ToolError: its paths can't be found from the workspace.
        """
        if self.sandbox is None:
            return None
        from greenroom.sandbox._internal import examine_sandbox  # most runs have no sandbox

        files = cast("Sequence[str]", getattr(self.tool, "sandbox_files", ()))
        report = await examine_sandbox(self.sandbox, workspace, readable=files)
        check_required(self.sandbox, report)
        return report

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Validate the input and run the call, as `ToolRegistry.execute` does."""
        return await self._contain(partial(self._begin, input, context), context)

    async def _contain(
        self, function: Callable[[], Awaitable[ToolResult]], context: AgentContext
    ) -> ToolResult:
        """Return what a function returns; whatever it raises becomes a result, too."""
        try:
            return await function()
        except trio.Cancelled as error:
            if trio.current_effective_deadline() == float("-inf"):
                raise
            stray = RuntimeError(f"{self.name} raised trio.Cancelled, and nothing had cancelled it")
            stray.__cause__ = error  # kept from a scope of its own, so no scope would take it
            return conceal(_make_error_result(self.name, stray, context), context)
        except _PASSING:
            raise
        except BaseException as error:  # noqa: BLE001  (whatever a tool raises is its result)
            return conceal(_make_error_result(self.name, error, context), context)

    async def _begin(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Validate the input, and run the call through the hook of its context."""
        begun = trio.current_time()
        arguments, fault = await self.check(input)
        facts: dict[str, object] = {"validation_ms": _milliseconds(trio.current_time() - begun)}
        if self.version:
            facts["version"] = self.version
        if fault:
            refused = ToolResult.error(fault, could_run=False, error="InvalidInputError")
            return replace(refused, metadata={**refused.metadata, **facts})
        id_, by_client = context.current_tool_use_id or "", self.runs_on_client
        call = ToolRun(id_, self.name, arguments, by_client, context.approval)
        run = partial(self._measure, arguments, context, facts)
        return await context.on_run(call, run, context)

    async def _measure(
        self, arguments: dict[str, object], context: AgentContext, facts: dict[str, object]
    ) -> ToolResult:
        """Run the call, and add what is known about it to its result."""
        begun = trio.current_time()
        result = await self._contain(partial(self._run, arguments, context), context)
        facts["execution_ms"] = _milliseconds(trio.current_time() - begun)
        return replace(result, metadata={**result.metadata, **facts})

    async def _run(self, arguments: dict[str, object], context: AgentContext) -> ToolResult:
        result: object = None
        with trio.move_on_after(self.timeout) as limit:
            result = await self.tool.execute(thaw(arguments), context)
        if limit.cancelled_caught:
            most = quantity(self.timeout, "second")
            return ToolResult.error(
                f"{self.name} was stopped: it did not finish within {most}.",
                ToolStatus.TIMEOUT,
            )
        if context.was_cut_off:  # it did not do all that it was to do
            await trio.lowlevel.checkpoint()
        return await self._finish(result, context)

    async def _finish(self, result: object, context: AgentContext) -> ToolResult:
        """Return a result that can be stored and sent: typed, short, and valid Unicode."""
        read = partial(read_result, self.name, result)
        typed = result if isinstance(result, ToolResult) else await run_heavy(read, result)
        if self.output_validator:
            typed = await self.output_validator.check(typed)
        # Before the cut: the rest goes to a file, and half of a secret is one, too.
        try:
            safe = await run_heavy(partial(_make_safe, typed, context), typed)
            short = await cut_text(safe, self.name, context)
            told = serde.decode(serde.encode(short), ToolResult).with_error_message()
        except serde.InvalidJSONError as error:
            raise ToolError(f"{self.name} returned a result that can't be used: {error}") from error
        # Its text is the tool's word to the model; this goes to programs and logs.
        if not told.is_error:
            return told
        return replace(told, error_message=conceal_secrets(told.error_message))


def _make_safe(result: ToolResult, context: AgentContext) -> ToolResult:
    """Return a result without secrets, and without images and PDFs that providers would refuse."""
    result = leave_out_faulty_media(conceal(result, context))
    if not result.metadata:
        return result
    # As it is stored: there, sets and dataclasses are lists and objects.
    stored = serde.decode(serde.encode(result.metadata), dict[str, object])
    metadata = conceal_texts(stored)
    return replace(result, metadata={key: _conceal_named(key, metadata[key]) for key in metadata})


def _conceal_named(name: str, value: object) -> object:
    """Conceal what is a secret by its name, such as `api_key`, in a value of JSON."""
    if isinstance(value, dict):
        return {key: _conceal_named(key, each) for key, each in value.items()}
    if isinstance(value, list):
        return [_conceal_named(name, each) for each in value]
    if isinstance(value, str):
        return conceal_secrets(f"{name}: {value}", {}).removeprefix(f"{name}: ")
    return value


def _make_error_result(name: str, error: BaseException, context: AgentContext) -> ToolResult:
    """Log a failure and make a result of it; a cancel, alone or beside a failure, passes."""
    found = leaves(error)
    passing = [leaf for leaf in found if issubclass(type(leaf), _PASSING)]
    if is_a(error, ToolError):
        _log.info("tool %s failed: %s", name, conceal(message_of(error), context))
    elif len(passing) < len(found):
        log_error(
            _log, f"tool {name} raised", error, conceal=partial(_conceal_all, context=context)
        )
    if passing:
        raise BaseExceptionGroup(f"{name} was stopped", passing) from None
    could_run = is_a(error, ToolError)
    kind = type_name(error)
    text = describe_failure(error) if could_run else hint_at_loop(describe_failure(error))
    return ToolResult.error(text, could_run=could_run, raised=kind, error=kind)


def _milliseconds(seconds: float) -> float:
    return round(1000 * seconds, 3)


def _conceal_all(text: str, context: AgentContext) -> str:
    return conceal_secrets(conceal(text, context))


def describe_failure(error: BaseException) -> str:
    """Describe what a tool raised, in words for the model, without secrets: five of a group."""
    found = leaves(error)
    more = f"; and {len(found) - _MAX_LEAVES} more" if len(found) > _MAX_LEAVES else ""
    parts = [
        message_of(leaf) if is_a(leaf, ToolError) else describe_error(leaf)
        for leaf in found[:_MAX_LEAVES]
    ]
    return clip("; ".join(parts), MAX_ERROR_TEXT - len(more)) + more


MAX_TEXT = 30_000
"""Characters of text in one result for a model; the usual limit of coding agents."""

MAX_FILE = 20_000_000
"""Characters of text of one result that a file keeps; of a longer one, head and tail."""

MAX_FILES = 200
"""Files that a folder keeps; the oldest make room for new ones."""

MAX_BYTES = 200_000_000
"""Bytes of all files in a folder together; the oldest make room for new ones."""

_NAME = compile_later(r"[\w-]+-[0-9a-z]{12}\.txt")


class SpillFolder:
    """A temporary folder for an agent whose context has none; removed with this object."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="greenroom-"))
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def close(self) -> None:
        """Remove the folder and its files now."""
        self._finalizer()


async def cut_text(
    result: ToolResult, tool_name: str, context: AgentContext, limit: int = MAX_TEXT
) -> ToolResult:
    """Cut the text of a result to `limit` characters in total; images and documents stay.

    Head and tail remain, with a note between them that names the file of the whole text:
    `session:NAME` in the session's files, which Read shows; without a session a path under
    `context.spill_folder`, or else in a `SpillFolder` among the resources. If the file can't be
    written, the note says so. The newest 200 files are kept, up to 200 MB together.
    """
    texts = [block.text for block in result.content if isinstance(block, TextBlock)]
    if sum(map(len, texts)) + len(texts) - 1 <= limit:
        return result
    whole = "\n".join(texts)
    metadata = {**result.metadata}
    try:
        if context.files is not None:
            path, is_whole = await _keep(whole, tool_name, context.files)
        else:
            folder = _find_folder(context)  # not in the thread, so two calls share one folder
            path = await trio.to_thread.run_sync(_write, whole, tool_name, folder)
            is_whole = len(whole) <= MAX_FILE
    except (OSError, SessionError) as error:
        _log.warning("the long output of %s could not be kept: %s", tool_name, error)
        problem = error.strerror if isinstance(error, OSError) else describe_error(error)
        note = f"they could not be kept in a file: {problem}"
    else:
        metadata["spill_file"] = path
        note = f"{'the whole text' if is_whole else 'more of its head and tail'} is in {path}"
        note += ", for Read" if context.files is not None else ""
    others = tuple(block for block in result.content if not isinstance(block, TextBlock))
    text = TextBlock(_keep_ends(whole, limit, note))
    return replace(result, content=(text, *others), metadata=metadata)


def _keep_ends(text: str, limit: int, note: str) -> str:
    """Keep head and tail; the head is longer, as it says what the text is."""
    marker = f"\n\n… {len(text):,} characters in all, the middle is left out; {note} …\n\n"
    room = max(limit - len(marker), 2)
    tail = room // 3
    return text[: room - tail] + marker + text[-tail:]


async def _keep(text: str, tool_name: str, files: KeptFiles) -> tuple[str, bool]:
    """Keep a text in the session's files; return its name for Read, and whether it is whole."""
    data = valid_unicode(text).encode()
    is_whole = len(data) <= files.longest
    if not is_whole:  # a character takes at most four bytes
        ends = _keep_ends(text, files.longest // 4, "it was too long to keep")
        data = valid_unicode(ends).encode()
    sizes = {name: size for name, size in (await files.sizes()).items() if _NAME.fullmatch(name)}
    count, total = len(sizes) + 1, sum(sizes.values()) + len(data)
    for name, size in sizes.items():
        if count <= MAX_FILES and total <= MAX_BYTES:
            break
        await files.remove(name)
        count, total = count - 1, total - size
    name = f"{re.sub(r'[^A-Za-z0-9_-]', '-', tool_name).strip('-')[:60] or 'tool'}"
    name = f"{new_id(name)}.txt"
    await files.put(name, data)
    return f"{SESSION_PREFIX}{name}", is_whole


def _write(text: str, tool_name: str, folder: Path) -> str:
    if folder.is_symlink():  # its target is not ours to fill and tidy
        raise OSError(errno.ELOOP, "the folder for it is a link", str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{new_id(tool_name)}.txt"
    if len(text) > MAX_FILE:
        text = _keep_ends(text, MAX_FILE, "it was too long to keep")
    data = valid_unicode(text).encode()
    _make_room(folder, len(data))
    path.touch(mode=0o600)  # it may hold secrets
    try:
        path.write_bytes(data)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return str(path)


def _make_room(folder: Path, size: int) -> None:
    """Remove the oldest files until there is room for a file of this size."""
    with os.scandir(folder) as entries:
        ours = [(entry.path, entry.stat()) for entry in entries if _NAME.fullmatch(entry.name)]
    ours.sort(key=lambda file: file[1].st_mtime_ns)
    count, total = len(ours) + 1, sum(stat.st_size for _, stat in ours) + size
    for path, stat in ours:
        if count <= MAX_FILES and total <= MAX_BYTES:
            return
        Path(path).unlink(missing_ok=True)
        count, total = count - 1, total - stat.st_size


def _find_folder(context: AgentContext) -> Path:
    if context.spill_folder:
        return Path(context.spill_folder)
    folder = context.resources.get(SpillFolder)
    if folder is None:
        folder = SpillFolder()
        context.resources.insert(folder)
    return folder.path


LIVE_CHARACTERS = 1_000_000
"""Characters that one call shows while it runs: more than a person reads, and bounded."""


class LiveOutput:
    """Shows the first million characters of one call as they come, and a note if there are more.

    Example:
        >>> shown = []
        >>> live = LiveOutput(shown.append)
        >>> live.show("half way")
        >>> shown
        ['half way']
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        """Show text with this function, such as `context.progress`."""
        self._show = show
        self._room = LIVE_CHARACTERS

    def show(self, text: str) -> None:
        """Show as much of a text as there is room for."""
        if not text or self._room <= 0:
            return
        self._show(text[: self._room])
        self._room -= len(text)
        if self._room <= 0:
            self._show("\n… the rest of the output is not shown live …\n")


def add_sandbox_report(
    result: ToolResult, report: SandboxReport | None, sandbox: Sandbox | None
) -> ToolResult:
    """Add the report of its sandbox to a result: all of it as metadata, the gist for the model.

    The model learns what is not enforced here, and after a failure that a sandbox may be the cause.

    Example:
        >>> report = SandboxReport("read-only", "none", "limits", {}, ("disk",), ("files",), {})
        >>> print(add_sandbox_report(ToolResult.ok("done"), report, Sandbox()).text)
        done
        [NOT HELD by the sandbox here: files]
    """
    if report is None or sandbox is None:
        return result
    lines = []
    if report.lacking:
        lines.append(f"[NOT HELD by the sandbox here: {', '.join(report.lacking)}]")
    if result.is_error:
        user = "" if report.user is None else f", as user {report.user}"
        lines.append(f"[it ran in a sandbox: {describe_sandbox(sandbox)}{user}]")
    words = (TextBlock("\n".join(lines)),) if lines else ()
    facts = {**result.metadata, "sandbox": serde.loads(serde.encode(report))}
    return replace(result, content=(*result.content, *words), metadata=facts)

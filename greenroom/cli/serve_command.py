"""`greenroom serve`: sessions over HTTP, of the coding agent or of agents that are imported."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from greenroom.agents._internal import user_rules_path
from greenroom.cli.command_options import ServeOptions
from greenroom.cli.exchangeable_model import ExchangeableModel
from greenroom.cli.record_command import AgentFunction, import_agent
from greenroom.cli.run_rules import load_run_rules
from greenroom.cli.run_setup import (
    RunSetup,
    describe_untrusted,
    open_setup,
    open_tracer,
    restore_grants,
)
from greenroom.cli.stdio import OutputWriter, tell
from greenroom.cli.stored_sessions import open_store, traces_folder, working_folder
from greenroom.core import ConfigurationError, GreenroomError
from greenroom.core._internal import InvalidJSONError, leaves, serde
from greenroom.interop import ServerLimits, Tokens, WebServer
from greenroom.interop._internal import LOCAL, Role, add_token
from greenroom.observability import Audit, Metrics, Tracer, read_trace
from greenroom.runtime import AgentInternals, AgentRuntime
from greenroom.session import SessionStore

if TYPE_CHECKING:
    from greenroom.cli.hooks import SessionSource

_SHOWN_LINES = 1_000  # of an audit, the newest


async def run_server(options: ServeOptions) -> int:
    """Serve until a signal ends it, or add a token; return the exit code.

    Raises:
        ConfigurationError: an agent, a token, a limit or an address can't be used.
        OSError: standard output can't be written.
    """
    if options.served[:1] == ("token",):
        return await _add_token(options)
    if options.mode == "bypass":
        raise ConfigurationError(
            "a server never runs in the mode bypass, which asks nothing",
            hint="choose another with --permission-mode",
        )
    limits, tokens = read_limits(options.limits), await _load_tokens(options)
    async with _open_parts(options) as parts:
        await _serve(options, parts, limits, tokens)
    return 0


async def _add_token(options: ServeOptions) -> int:
    words = options.served[1:]
    if len(words) != 2 or words[1] not in {*Role}:
        raise ConfigurationError(
            "a token has a name and a role", hint=f"a role is one of {', '.join(Role)}"
        )
    path = _token_file(options)
    token = await trio.to_thread.run_sync(add_token, path, words[0], Role(words[1]))
    tell(f"added to {path}, which has only its hash; it is not shown again")
    data: dict[str, object] = {"name": words[0], "role": words[1], "token": token}
    await OutputWriter().result(token, data, as_json=options.json)
    return 0


def _token_file(options: ServeOptions) -> Path:
    if options.token_file is not None:
        return Path(options.token_file)
    return user_rules_path().with_name("tokens")


async def _load_tokens(options: ServeOptions) -> Tokens | None:
    path = _token_file(options)
    if options.token_file is None and not await trio.Path(path).exists():
        return None
    return await trio.to_thread.run_sync(Tokens.load, path)


def read_limits(given: tuple[str, ...]) -> ServerLimits:
    """Return the limits with those that are given as NAME=N.

    Raises:
        ConfigurationError: there is no such limit, or it can't have this value.

    Example:
        >>> read_limits(("streams=5",)).streams
        5
    """
    kinds = {each.name: type(getattr(ServerLimits(), each.name)) for each in fields(ServerLimits)}
    limits = ServerLimits()
    for each in given:
        name, _, text = each.partition("=")
        try:
            limits = replace(limits, **{name: kinds[name](text)})
        except (KeyError, ValueError) as error:
            raise ConfigurationError(
                f"--limit {each} can't be used",
                hint=f"write NAME=N, with one of {', '.join(kinds)}",
            ) from error
    return limits


@dataclass(frozen=True)
class _Parts:
    """What is served, and where its sessions are kept."""

    make_agents: Callable[[AgentRuntime], Mapping[str, AgentFunction]]
    store: SessionStore
    workspace: Path
    gates: tuple[object, ...] = ()
    instruments: tuple[object, ...] = ()


@asynccontextmanager
async def _open_parts(options: ServeOptions) -> AsyncIterator[_Parts]:
    """Open what is to be served: the agents that are named, or the coding agent of this folder."""
    workspace = working_folder()
    if options.served:
        agents: dict[str, AgentFunction] = {}
        for place in options.served:
            agent = await trio.to_thread.run_sync(import_agent, place, str(workspace))
            agents[str(getattr(agent, "name", place.partition(":")[2]))] = agent
        async with open_tracer(options) as tracer:
            instruments = () if tracer is None else (tracer,)
            yield _Parts(lambda _: agents, open_store(options), workspace, instruments=instruments)
        return
    async with open_setup(options) as setup:
        tell(*setup.warnings, *describe_untrusted(setup.untrusted), *setup.notes)

        def make_coder(runtime: AgentRuntime) -> Mapping[str, AgentFunction]:
            return {"coder": partial(_serve_coder, options, setup, runtime)}

        yield _Parts(make_coder, setup.store, workspace, setup.gates, setup.instruments)


async def _serve_coder(
    options: ServeOptions, setup: RunSetup, runtime: AgentRuntime, agent: AgentInternals
) -> None:
    """Be the coding agent of one session, with rules, a model and hooks of its own.

    A session remembers answers of its own, and a command in a file changes the model and the rules
    of a turn: neither may reach another session.
    """
    rules = await load_run_rules(options, setup.workspace)
    session, model = agent.session, ExchangeableModel(setup.model.llm)
    restore_grants(session, rules.manager, setup.workspace, options)
    own, handle = setup.own, runtime.get(session.session_id)
    work = partial(setup.bind_coder(), agent, model, setup.tools, rules.manager)
    if own is None or own.turns is None or handle is None:
        await work()
        return
    with own.turns.bind(session.session_id, model, rules.manager):
        if not len(own.hooks):
            await work()
            return
        source: SessionSource = "resume" if session.history else "startup"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(own.hooks.watch, handle, source, grace=options.grace))
            await work()
            nursery.cancel_scope.cancel()


async def _serve(
    options: ServeOptions, parts: _Parts, limits: ServerLimits, tokens: Tokens | None
) -> None:
    metrics = Metrics()
    audit = None if options.audit is None else Audit(options.audit)
    async with _open_exporter(options) as exporters, _open_hosts(options) as hosts_view:
        runtime = AgentRuntime(
            parts.store,
            workspace=parts.workspace,
            gates=(*parts.gates, *(() if audit is None else (audit,))),
            instruments=(*parts.instruments, Tracer(metrics, content="none"), *exporters),
        )
        async with runtime:
            server = WebServer(
                runtime,
                parts.make_agents(runtime),
                tokens=tokens,
                hosts=(*LOCAL, *options.allowed_hosts),
                origins=options.allowed_origins,
                away=options.away,
                owner=options.owner,
                limits=limits,
                page=options.page,
                ag_ui=options.ag_ui,
                a2a=options.a2a,
                trace=partial(_read_spans, parts.store),
                metrics=metrics,
                audit=None if options.audit is None else partial(_read_audit, options.audit),
                hosts_view=hosts_view,
            )
            await _run(server, runtime, options, has_tokens=tokens is not None)


@asynccontextmanager
async def _open_exporter(options: ServeOptions) -> AsyncIterator[tuple[Tracer, ...]]:
    """Open what exports spans by OpenTelemetry, if that is wanted.

    Raises:
        ConfigurationError: OpenTelemetry is not installed.
    """
    if not options.otel:
        yield ()
        return
    from greenroom.observability import OpenTelemetry

    async with OpenTelemetry() as sink:
        yield (Tracer(sink),)


@asynccontextmanager
async def _open_hosts(
    options: ServeOptions,
) -> AsyncIterator[Callable[[], Awaitable[object]] | None]:
    """Open what lists the hosts of a cluster, if that is wanted.

    Raises:
        ConfigurationError: the database can't be used.
    """
    if not options.cluster:
        yield None
        return
    from greenroom.distributed import Cluster

    async with Cluster() as cluster:
        yield cluster.hosts


async def _run(
    server: WebServer, runtime: AgentRuntime, options: ServeOptions, *, has_tokens: bool
) -> None:
    """Serve until a signal comes.

    Raises:
        ConfigurationError: the address can't be had.
        OSError: standard output can't be written.
    """
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            await _serve_until_signal(server, runtime, options, nursery, has_tokens)
    except* (GreenroomError, OSError) as group:
        failure = leaves(group)[0]
    if failure is not None:
        raise failure


async def _serve_until_signal(
    server: WebServer,
    runtime: AgentRuntime,
    options: ServeOptions,
    nursery: trio.Nursery,
    has_tokens: bool,
) -> None:
    """Serve until a signal comes; then connections and agents end side by side."""
    serving = trio.CancelScope()

    async def serve(task_status: trio.TaskStatus[str]) -> None:
        with serving:
            await server.serve(
                options.host, options.port, grace=options.grace, task_status=task_status
            )

    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        link = await nursery.start(serve)
        if has_tokens:
            tell(f"serving at {link}")
        if options.json:
            await OutputWriter().line(serde.encode({"link": link}))
        await anext(aiter(signals))
        serving.cancel()
        nursery.start_soon(runtime.shutdown_all, options.grace)


async def _read_spans(store: SessionStore, session_id: str) -> object:
    trace = await read_trace(session_id, store=store, folder=traces_folder())
    return {"spans": trace.spans, "missing": trace.missing}


async def _read_audit(path: str) -> object:
    data = await trio.Path(path).read_bytes()
    return {"lines": [_read_line(each) for each in data.splitlines()[-_SHOWN_LINES:]]}


def _read_line(line: bytes) -> object:
    try:
        return serde.loads(line)
    except InvalidJSONError:
        return None

"""`greenroom host` and `greenroom hosts`: agents on several machines."""

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

import trio

from greenroom.cli import diagnostics
from greenroom.cli.command_options import HostOptions, TreeOptions
from greenroom.cli.record_command import import_value
from greenroom.cli.stdio import OutputWriter, tell
from greenroom.cli.stored_sessions import working_folder
from greenroom.core import ConfigurationError, GreenroomError
from greenroom.core._internal import describe_error, leaves, serde

if TYPE_CHECKING:
    from greenroom.distributed import AgentType, Cluster, Host

_DEEPEST = 64  # levels of a tree
_PAGE = 1_000  # agents


async def run_host(options: HostOptions) -> int:
    """Run a host until it is drained, by a signal or by `Cluster.drain`; return the exit code.

    Raises:
        ConfigurationError: a type, the database or the address can't be used.
        SessionStorageError: the database refused, or was away for too long.
        OSError: standard output can't be written.
    """
    from greenroom.distributed import Cluster, Host  # which other commands do not need

    folder = str(working_folder())
    types = [
        each
        for place in options.types
        for each in await trio.to_thread.run_sync(_import_types, place, folder)
    ]
    failure: BaseException | None = None
    async with Cluster(patience=options.patience) as cluster:
        try:
            host = Host(
                cluster,
                types,
                name=options.name,
                capabilities=options.capabilities,
                max_agents=options.max_agents,
                grace=options.grace,
                bind=options.bind,
                certificate=options.certificate,
                key=options.key,
                insecure=options.insecure,
            )
        except ValueError as error:
            raise ConfigurationError(str(error)) from error
        try:
            async with trio.open_nursery() as nursery:
                await _run_until_signals(host, options, nursery)
        except* (GreenroomError, OSError) as group:
            failure = leaves(group)[0]
    if failure is not None:
        raise failure
    return 0


async def _run_until_signals(host: "Host", options: HostOptions, nursery: trio.Nursery) -> None:
    """Run the host; the first signal drains it, and the second one ends it."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        running = trio.CancelScope()

        async def run(task_status: trio.TaskStatus[int]) -> None:
            with running:
                await host.run(task_status=task_status)
            nursery.cancel_scope.cancel()

        number = await nursery.start(run)
        tell(f"host {number} is there")
        if options.json:
            await OutputWriter().line(serde.encode({"host": number}))
        await anext(aiter(signals))
        tell("its agents go to other hosts; once more ends it at once")
        host.drain()
        await anext(aiter(signals))
        running.cancel()


def _import_types(place: str, folder: str) -> "tuple[AgentType, ...]":
    """Import types of agents; it runs the module, and blocks.

    Raises:
        ConfigurationError: the module or the name does not exist, or the value is something else.
    """
    from greenroom.distributed import AgentType

    found = import_value(place, folder)
    if callable(found):
        try:
            found = cast("Callable[[], object]", found)()
        except Exception as error:  # a user's function may raise anything
            raise ConfigurationError(f"{place}() failed: {describe_error(error)}") from error
    types = (found,) if isinstance(found, AgentType) else found
    if isinstance(types, Iterable):
        listed = tuple(types)
        if listed and all(isinstance(each, AgentType) for each in listed):
            return cast("tuple[AgentType, ...]", listed)
    raise ConfigurationError(
        f"{place} has no types of agents",
        hint="name a sequence of greenroom.distributed.AgentType, or a function that returns one",
    )


async def list_hosts(options: HostOptions) -> int:
    """Print the hosts, and the inputs that were set aside; return the exit code.

    Raises:
        ConfigurationError: the database can't be used.
        SessionStorageError: the database refused, or was away for too long.
        OSError: standard output can't be written.
    """
    from greenroom.distributed import Cluster

    async with Cluster(patience=options.patience) as cluster:
        hosts, aside = await cluster.hosts(), await cluster.set_aside()
    page = OutputWriter()
    if options.json:
        dead = [{"session": session, "input": input_id} for session, input_id in aside]
        await page.line(serde.encode({"hosts": hosts, "set_aside": dead}))
        return 0
    if not hosts:
        tell("no host is running")
    else:
        rows = [
            (
                str(each.id),
                each.name,
                each.state,
                f"{each.agents} of {each.max_agents}",
                ", ".join(each.types),
                ", ".join(each.capabilities),
                each.address,
            )
            for each in hosts
        ]
        names = ("host", "name", "state", "agents", "types", "capabilities", "address")
        await page.table(names, rows)
    for session, input_id in aside:
        tell(f"set aside, since three hosts ended with it: {input_id} of {session}")
    return 0


async def print_trees(options: TreeOptions) -> int:
    """Print the agents of this machine, or those on hosts; the exit code is always 0.

    Raises:
        ConfigurationError: the database can't be used.
        SessionStorageError: the database refused, or was away for too long.
        OSError: standard output can't be written.
    """
    if not options.cluster:
        return await diagnostics.print_trees(options)
    from greenroom.distributed import Cluster

    async with Cluster() as cluster:
        agents = await _read_agents(cluster)
    page = OutputWriter()
    if options.json:
        await page.line(serde.encode({"agents": agents}))
        return 0
    if not agents:
        await page.text("no agents are on hosts")
    known = {str(each["id"]) for each in agents}
    tops = [each for each in agents if each["parent"] not in known]
    for depth, each in _walk(tops, agents):
        host = "waits for a host" if each["host"] is None else f"on host {each['host']}"
        await page.text(
            f"{'  ' * depth}{each['type']} {each['id']} {host}, {each['queued']} queued"
        )
    return 0


async def _read_agents(cluster: "Cluster") -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    after = ""
    while agents := await cluster.agents(after=after, limit=_PAGE):
        for each in agents:
            now = await each.status()
            about = {"host": now.host, "parent": now.parent, "queued": now.queued}
            found.append({"id": each.session_id, "type": each.agent_type, **about})
        after = agents[-1].session_id
    return found


def _walk(
    level: Sequence[dict[str, object]], agents: Sequence[dict[str, object]], depth: int = 0
) -> Iterator[tuple[int, dict[str, object]]]:
    """Return agents with those that were started for them, each with its depth."""
    for each in level:
        yield depth, each
        if depth < _DEEPEST:
            below = [other for other in agents if other["parent"] == each["id"]]
            yield from _walk(below, agents, depth + 1)

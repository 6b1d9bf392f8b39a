"""The rows of the table: what is compared with what, and what it may cost."""

from typing import Literal, NamedTuple

Figure = Literal["cpu", "wall"]


class Row(NamedTuple):
    """One comparison.

    Attributes:
        name: short, for `--rows` and `--profile`.
        title: for the table.
        ours: the workload of Greenroom.
        floor: the workload by hand.
        unit: what the figures are about.
        figure: the time that counts: of the processor, or by the clock where a disk is waited for.
        most: how many times the floor it may take.
        on: what is on in ours, and not in the floor.
        peers: the workload of the peers that do the same, if there is one.
    """

    name: str
    title: str
    ours: str
    floor: str
    unit: str
    most: float
    on: str = ""
    figure: Figure = "cpu"
    peers: str = ""


PERMISSIONS = "a session in memory, permissions, chunks"
CHANNELS = "trio's memory channels"

ROWS = (
    Row(
        "step-chat",
        "a step with one call, chat completions",
        "ours.chat_steps",
        "floors.chat_steps",
        "step",
        2.0,
        PERMISSIONS,
        peers="steps",
    ),
    Row(
        "step-anthropic",
        "a step with one call, Anthropic",
        "ours.anthropic_steps",
        "floors.anthropic_steps",
        "step",
        2.0,
        PERMISSIONS,
    ),
    Row(
        "step-files",
        "a durable step, sessions in files (floor: and an append with a sync)",
        "ours.durable_steps",
        "floors.durable_steps",
        "step",
        2.1,
        "a session in files, synced at each step",
    ),
    Row(
        "step-sqlite",
        "a durable step, sessions in SQLite (the same floor)",
        "ours.sqlite_steps",
        "floors.durable_steps",
        "step",
        2.5,
        "a session in a database, synced at each step",
    ),
    Row(
        "burst-chat",
        "2,000 deltas as fast as they come, chat completions",
        "ours.chat_burst",
        "floors.chat_burst",
        "delta",
        1.0,
        PERMISSIONS,
        peers="burst",
    ),
    Row(
        "burst-anthropic",
        "2,000 deltas as fast as they come, Anthropic",
        "ours.anthropic_burst",
        "floors.anthropic_burst",
        "delta",
        1.0,
        PERMISSIONS,
    ),
    Row(
        "paced",
        "a delta a millisecond, chat completions",
        "ours.chat_paced",
        "floors.chat_paced",
        "delta",
        1.2,
        PERMISSIONS,
    ),
    Row(
        "crowd",
        "200 runs of 5 steps at once (floor: one httpx client)",
        "ours.crowd",
        "floors.crowd",
        "run",
        1.0,
        PERMISSIONS,
        peers="crowd",
    ),
    Row(
        "large-crowd",
        "1,000 runs at once (floor: 200 by one httpx client)",
        "ours.large_crowd",
        "floors.crowd",
        "run",
        1.0,
        PERMISSIONS,
    ),
    Row(
        "import",
        "import of AgentRuntime, AgentSession (floor: trio, msgspec, orjson)",
        "from greenroom import AgentRuntime, AgentSession",
        "import trio, msgspec, orjson",
        "import",
        1.35,
    ),
    Row(
        "spawn",
        "an agent spawned (floor: a task with two channels)",
        "ours.spawn",
        "floors.spawn",
        "agent",
        1 / 0.16,
        "a session, chunks",
    ),
    Row(
        "shutdown",
        "an idle agent shut down (floor: such a task ended)",
        "ours.shutdown",
        "floors.shutdown",
        "agent",
        3.0,
        "an outcome of each",
    ),
    Row(
        "round-trip",
        "an input and its chunk (floor: two memory channels)",
        "ours.round_trip",
        "floors.round_trip",
        "round trip",
        2.6,
    ),
    Row(
        "ask",
        "a turn asked for (the same floor)",
        "ours.ask",
        "floors.round_trip",
        "question",
        12.0,
        "a turn with its record",
    ),
    Row(
        "fan-out",
        "a chunk to 100 readers (floor: `await send` to 100 channels)",
        "ours.fan_out",
        "floors.fan_out",
        "delivery",
        1 / 15,
    ),
    Row(
        "fan-out-nowait",
        "the same (floor: `send_nowait`)",
        "ours.fan_out",
        "floors.fan_out_nowait",
        "delivery",
        1 / 5,
    ),
    Row(
        "append",
        "a message saved in a file (floor: a line and a sync in a thread)",
        "ours.appends",
        "floors.appends",
        "save",
        1.5,
        "checksums, a lock",
        "wall",
    ),
    Row(
        "appends",
        "100 sessions that save at once (the same floor)",
        "ours.crowded_appends",
        "floors.crowded_appends",
        "save",
        1.2,
        "checksums, a lock",
    ),
    Row(
        "load",
        "10,000 messages loaded (floor: orjson, line by line)",
        "ours.load",
        "floors.load",
        "message",
        1.8,
        "checksums, typed values",
    ),
)

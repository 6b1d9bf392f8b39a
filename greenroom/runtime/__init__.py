"""The actor kernel: it runs agents and knows nothing of models.

Outside, you hold an `agent_runtime` and a `handle` of each agent; inside, an agent holds its
`internals`; both lead to one `actor`. `spawning` starts an agent, and `lifecycle` runs and ends it.
Its parts:

- `mailbox`: its inputs; `turn`: from an input to the answer; `interruption`: how a turn is stopped.
- `output_ring`: its chunks, and their readers; `turn_stream`: those of one turn.
- `approvals`: permission requests.
- `subagents`: its own agents, and news of others; `fan_out`: one agent for each prompt.
- `calls`: of models, tools and other agents; `budgets`: what limits them.
- `supervisor`, and `restarts` behind it: which agents are started again after a crash.

`tasks` tells whose code runs; `introspection` and `watchdog` show what happens; `runtime_thread`
and `thread_calls` are a runtime in a thread of its own, for asyncio and other threads.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)

"""The usual loop of an agent, its tool calls, and `Agent`, which is made of both.

- The loop: `reply` makes one model call, and `call_gate` runs the calls of a reply. `verdict`
  judges each call, and `questions` asks a person or a function. `reply_end` looks at empty replies.
- Files: `file_checkpoints` keeps files before tools change them, and `file_restore` restores them.
- `Agent`: `agent` is the configuration that users write, and `configuration` its fields and tools.
  `runnable` has what agents and teams have in common; `agent_run` is a run, `agent_result` its
  result. In a run, `steps` has the parts of the loop, and `bound_agent` what each agent brings;
  `handoff` passes the conversation on, `guards` check what is said, and `run_context` is for tools
  and instructions.
- `coder` is a coding agent, `plan_mode` lets it plan first, and `task` gives work to a second one.
  `project` tells it where it works, `skills` how to do kinds of work.
- `cut_off` goes on after a kill: calls in doubt, and agents that tools were running.
- `resilient_tool` adds retry, breaker and limits to a tool; `chunk_streams` are for readers.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)

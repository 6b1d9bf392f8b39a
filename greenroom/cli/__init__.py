"""The terminal: the command `greenroom`, and `ConsoleRenderer`, which shows any agent there.

The program: `commands` has `main` and the table of what runs which command; `arguments` declares
them. `interactive` and `headless` are runs, of the parts of `run_setup` (`run_rules`, `settings`).
The other
commands: `sessions_read`, `sessions_change`, `permissions_command`, `permissions_test_command`,
`models_command`, `memory_command`, `plans`, `doctor`, `completion`; `diagnostics` has the log and
`greenroom tree`. They share `stored_sessions`, `recap` and `streams`.

The renderer: `renderer` joins an agent and a person at a terminal. The `screen` shows the agent
(`render_chunk`, `markdown_stream`, `plans`) and the open `permission_prompt`. A `terminal` shows
its frames, plain or with prompt_toolkit (`prompt_terminal`, `prompt_application`, `prompt_layout`);
the `painter` makes text of what rich draws.

Only these modules import rich and prompt_toolkit, and only once they draw.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)

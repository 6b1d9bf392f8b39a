"""The terminal: the command `greenroom`, and `ConsoleRenderer`, which shows any agent there.

The program: `dispatch` has `main` and the table that says which function runs which command;
`arguments` declares them, `options` and `command_options` hold what was asked for, and `loading`
keeps their loading short. `interactive` and `headless`
(with `input_lines` and `turn_record`) are the two kinds of run; `run_setup` opens the parts of one,
with the rules of `run_rules`, whose `tool_names` are checked, the `modes` that a person switches,
and the `settings` (`settings_schema`) of user and project, which `settings_layers` puts together
for each of the `run_settings`. `own_setup` opens what users bring in files: `hooks`, which are the
shell commands of `hook_files`, each run by `hook_run`; and the commands and agents of `own_files`,
which `own_turns` brings to the agent's turns. The other commands: `sessions_read` and
`sessions_change`, `permissions_command` (with `project_files`, which a person can trust),
`permissions_test_command` and `rule_changes`, `config_command`, `cost_command`, `skills_command`,
`models_command`, `cluster_command`, `mcp_command` (with `mcp_setup`, which finds the servers of
tools of a run and connects to them), `memory_command`, `trace_command`, `prompt_command`,
`record_command`,
`audit_command`, `plan_view`, `doctor`, `completion`, `watch_command`, `acp_command` for editors
(whose servers of tools `editor_servers` remembers), and `diagnostics` with `greenroom tree` and the
log. All share `stored_sessions` (where sessions are, and which one an id means), `stdio` (standard
input and output) and `formatting` (sessions, calls and conversations as short text).

The renderer: `renderer` connects an agent with a person at a terminal. `screen` turns the agent's
chunks into frames, with `render_chunk`, `markdown_stream`, `plan_view` and the open
`permission_prompt`; `person` acts on what the person does, with a queue of inputs and, in a run of
the command, `run_inputs` (`mentions`, `mcp_inputs`, `own_command`, `input_history`). A `terminal`
shows frames: the plain one is there, the live one is `live_terminal`, whose application is
`prompt_terminal`, with the `input_line`, its `line_keys` and its `menu`, laid out by
`prompt_layout`; `terminal_choice` knows which it is, and `terminal_run` opens it before all else is
loaded. `painter` makes text of what can be drawn (`renderables`): of paragraphs in `rows` and of
text without rich's console; of all else in `paint_console`, with it. What is logged meanwhile
comes by `log_notices`.

The commands of the input line are a table, `commands`. Each gets a `command_context`:
`agent_commands`, `run_commands`, `session_commands`, `command_help`; `candidates` finds what their
menus offer.

Only these modules import rich and prompt_toolkit, and only once they draw.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)

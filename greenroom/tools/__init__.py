"""Tools: what agents can do. They do not know who may call them.

`protocol` says what a tool is, and what it says of its calls. `function_tool` makes one of a
function (`@tool`) or of what is nearly one (`as_tool`); `schema` makes its JSON Schema out of
signature and docstring. `registry` has the tools of an agent and is the gate for calls: it isolates
failures and bounds their time; `checks` validates the input and cuts long results, `blocking` runs
plain functions in threads. `workspace_changes` records what calls do to files, `file_contents`
keeps and restores these. The rooms:

- `builtin`: the tools that come along; they are found here as well, and load at their first use.
- `isolation`: plain functions in processes that can be killed: the pool and its workers, the
  program in a worker, and the frames that cross.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)

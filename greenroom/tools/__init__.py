"""Tools: what agents can do. They do not know who may call them.

- `interface` says what a tool is, and checks that an object is one. `function_tool` turns a
  function (`@tool`) or an almost-tool (`as_tool`) into one; `schema` makes its JSON Schema from the
  signature and the docstring.
- `registry` holds an agent's tools, and those that a provider has at each moment.
  `execution` runs a call: it has `greenroom.schemas` check the input, keeps the time-out, turns
  failures into results and cuts long ones. `blocking` runs plain functions in threads. `call_order`
  decides which calls of a reply run side by side.
- `workspace_changes` records what calls do to files; `file_contents` keeps and restores them.
- `builtin` has the tools that come with the package; import them from here, they load at first use.
- `isolation` runs plain functions in processes that can be killed: the pool of workers, the program
  that runs in a worker, and the frames between them.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)

"""Tools: what agents can do. They do not know who may call them.

`protocol` says what a tool is; `function_tool` (`@tool`) makes one of a function, with `schema`,
`typed_dict` and `docstring`, and `adapted_tool` (`as_tool`) of what is nearly one; `registry` and
`registered_tool` are the tools of an agent, `flags` what tools say of their calls; `execution` is how calls run, with `validation`, `spill` and,
for threads, `blocking`. The rooms:

- `builtin`: the tools that come along; they are found here as well, and load at their first use.
- `isolation`: plain functions in processes that can be killed: the pool, one worker as we hold it, the
  program in it, and what crosses.
- `process`: commands and workers behind a launcher, so that nothing of them outlives us.
- `sandbox`: what commands and workers can be held by: a policy, what of it holds on this machine, how.
- `workspace`: what calls do to files: seen, kept, and undone; it loads at its first use, too.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)

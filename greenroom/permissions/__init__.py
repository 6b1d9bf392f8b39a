"""May this agent do that? Rules, and the decisions that follow from them.

The package only decides: it asks nobody and runs nothing. A `rule` is a decision and a `matcher`,
whose `patterns` match paths, hosts and texts. A `call` is a tool call taken apart into facts;
`greenroom.shell` does that for commands. `scopes` picks the rules that apply to a call and puts
them in order, `evaluator` judges each fact by them, and `settling` settles by the `modes` what no
rule decides. What judges is loaded by the first call (`judging`), so that a run can begin sooner.
`explanation` describes a decision to the person who is asked, and `suggestions` proposes the rules
that an answer would add; `grants` keeps those of a session, and `rule_file` stores the others on
disk. `manager` is the part that users hold.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)

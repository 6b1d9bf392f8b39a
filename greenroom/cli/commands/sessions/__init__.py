"""`greenroom sessions`: what can be done with stored sessions from a shell.

`arguments` reads what stands behind the word, `verbs` finds what it means. `listing` lists,
`showing` shows a conversation, `branching` forks and rewinds one, `repairing` repairs a damaged one,
`exporting` and `importing` carry one away and back; `row` is what lists tell of a session.
"""

__all__: list[str] = []

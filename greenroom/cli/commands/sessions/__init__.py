"""`greenroom sessions`: what can be done with stored sessions from a shell.

`arguments` reads what stands behind the word, `verbs` finds what it means. `listing` lists,
`showing` shows a conversation, `searching` finds one, `branching` forks and rewinds it, `removing`
removes and archives, `repairing` repairs what is damaged, `exporting` and `importing` carry one away
and back; `row` is what lists tell of a session.
"""

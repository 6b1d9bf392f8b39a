"""`greenroom permissions`: what the rules would decide, which there are, and what was decided.

`arguments` reads what stands behind the word, `verbs` finds what it means. `explaining` judges one
call, `listing` lists the rules in force, `trying` judges the calls of a file (each a `case`, in a
`scene` of its own), `reviewing` shows what was decided in a session, `trusting` lets a project's rules
count.
"""

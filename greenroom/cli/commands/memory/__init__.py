"""`greenroom memory`: what agents remember of this folder.

Modules: `arguments` (what may stand on the command line), `verbs` (what they do).
"""

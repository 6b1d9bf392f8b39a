"""`greenroom plan`: the plans of stored sessions.

Modules: `arguments` (what may stand on the command line), `showing` (what it prints).
"""

"""`greenroom models`: whose models can be used, which is the default, and what is known of them.

Modules: `arguments` (what may stand on the command line), `listing` (what it prints).
"""

"""Git, kept from running and reading what a repository names, and what a repository names.

A repository comes from its author, and its files may make git run programs even where it only
reads. `overrides` has the words that switch this off, `questions` asks git itself what no word
switches off, and `answers` remembers what it said. `index` lists what is tracked. All but
`overrides` blocks: call it in a thread. The package can be used on its own.

Example:
    >>> from greenroom.git._internal import add_overrides
    >>> add_overrides(("git", "log", "-3"))[-3:]
    ('--no-ext-diff', '--no-textconv', '-3')
"""

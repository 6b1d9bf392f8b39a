"""What a shell command would do, found out before it runs.

A command is plain if every word of it is known beforehand. `analyse` reads a text and lists its
effects: the programs that run, with their words (`Command`), the files that redirections open
(`PathUse`), the variables that are set (`Change`), and whatever can't be determined beforehand
(`Unknown`). `render` writes a plain command so that bash runs just what was read. What the words
mean to their program is in `greenroom.programs`. The package runs nothing, knows nothing of agents
or rules, and can be used on its own.

Example:
    >>> from greenroom.shell._internal import Place, analyse, render
    >>> found = analyse("cd src && make CC=cc > ../out", Place("/work", "/work"))
    >>> [str(effect) for effect in found.effects]
    ['cd src', 'make CC=cc', 'write ../out']
    >>> print(render(found.script))
    'cd' 'src' && 'make' 'CC=cc' > '../out'
"""

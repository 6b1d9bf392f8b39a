"""What is known about programs: how each reads its words, and what it does with them.

The tables `programs.txt` and `git.txt` say which options a program has, which of them take a value,
run something or write a file, and what its operands are. `invocation` reads a command by them, as
its program would, and finds the commands inside it; `reading` finds the words that make it do more
than its name says, and says what a command reads that does nothing else. `languages` looks into
small scripts, as those of sed, and `hosts` finds the hosts in URLs and other words.

`reach`, with the table `reach.txt`, says what a command reads or contacts that no word has to name,
`git_words` what the words of git name, and `verbs`, with `verbs.txt`, how many of the first words
say what a command does. `words` compares commands that are written in different ways. The
package runs nothing and looks at no disk.

Example:
    >>> from greenroom.programs._internal import find_reading, read_invocation
    >>> read_invocation(["sort", "-ro", "out", "names"]).parts[1].value
    'out'
    >>> find_reading(read_invocation(["sort", "-r", "names"])).files[0].path
    'names'
"""

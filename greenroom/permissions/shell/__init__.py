"""What a shell command would do: a parser for the part of bash that can be told in advance.

The rooms, each importing only those before it: `grammar` reads text into words and simple commands, and
says how much of a word is known; `programs` says which programs run others, which options write, and
which programs only read. `analyse` makes facts of all of it, through `commands` and `redirections`, with
`variables` for what builtins and settings change.
"""

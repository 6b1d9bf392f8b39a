"""What a shell command would do: a parser for the part of bash that can be told in advance.

The rooms, each importing only those before it: `grammar` reads text into words and simple commands,
`variables` knows what a name may stand for, `programs` which programs run others and which options
write. `analyse` makes facts of all of it, through `commands`, `folder_changes` and `redirections`.
"""

"""What a shell command would do: a parser for the part of bash that can be told in advance."""

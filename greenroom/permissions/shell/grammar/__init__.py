"""Shell text as a tree: words, simple commands, and what cannot be told."""

"""Sessions in files: a folder each."""

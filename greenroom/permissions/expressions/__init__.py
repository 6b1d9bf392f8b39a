"""Regular expressions that take time in proportion to the text, whatever they are."""

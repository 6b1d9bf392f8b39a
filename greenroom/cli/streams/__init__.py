"""Standard input and output, read and written without standing in the way of a cancel."""

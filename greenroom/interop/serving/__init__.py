"""Sessions over HTTP: who may come in, what they may ask for, and the stream of chunks."""

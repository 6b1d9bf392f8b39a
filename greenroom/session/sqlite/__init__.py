"""Sessions in a database of SQLite, loaded when it is first used."""

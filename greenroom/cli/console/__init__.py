"""`ConsoleRenderer`: agents on the screen, and the person before it."""

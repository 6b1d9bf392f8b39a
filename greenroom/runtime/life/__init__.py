"""How an agent lives: spawned, run once or several times, ended in one step."""

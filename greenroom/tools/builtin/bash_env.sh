# Read by bash before a command: at its end, tell where it stood (see launcher.NOTE_FD).
unset BASH_ENV
trap '{ pwd -P >&19; } 2>/dev/null' EXIT

"""Programs in tmux, which reflows what stands in a window that is resized."""

import os
import shlex
import subprocess
import time
import uuid

SECONDS = 120


class Tmux:
    """A server of tmux of our own, with a session for each program."""

    def __init__(self, env):
        self.socket = f"greenroom-{uuid.uuid4().hex[:12]}"
        self._env = {**env, "LANG": "C.UTF-8"}

    def __call__(self, *words):
        command = ["tmux", "-L", self.socket, "-u", "-f", os.devnull, *words]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, check=True)
        return done.stdout

    def start(self, name, command, cwd, size=(110, 24)):
        """Run a program in a window of so many columns and lines."""
        place = ["-d", "-s", name, "-c", str(cwd), "-x", str(size[0]), "-y", str(size[1])]
        variables = [word for pair in self._env.items() for word in ("-e", "=".join(pair))]
        self(
            *("start-server", ";", "set-option", "-g", "history-limit", "200000", ";"),
            *("set-option", "-g", "remain-on-exit", "on", ";"),
            *("new-session", *variables, *place, shlex.join(command)),
        )

    def screen(self, name):
        return self("capture-pane", "-p", "-t", name)

    def everything(self, name):
        """Return the scrollback and the screen; lines that tmux has wrapped are whole again."""
        return self("capture-pane", "-p", "-J", "-S", "-", "-t", name)

    def wait_for(self, name, *texts, seconds=SECONDS):
        deadline = time.monotonic() + seconds
        while not all(text in (screen := self.screen(name)) for text in texts):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited for {texts}; the screen is\n{screen}")
            time.sleep(0.05)
        return screen

    def wait_until(self, name, is_done, seconds=SECONDS):
        """Wait until the screen is as it should be; return it."""
        deadline = time.monotonic() + seconds
        while not is_done(screen := self.screen(name)):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited for {is_done.__name__}; it is\n{screen}")
            time.sleep(0.05)
        return screen

    def wait_for_any(self, name, *texts, seconds=SECONDS):
        """Wait until one of these texts is on the screen, and return which."""
        deadline = time.monotonic() + seconds
        while not (found := [text for text in texts if text in self.screen(name)]):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited for one of {texts}; it is\n{self.screen(name)}")
            time.sleep(0.05)
        return found[0]

    def close(self):
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], capture_output=True, check=False)

"""Processes of other languages that answer each line of JSON with one of theirs."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from threading import Lock, RLock, Timer
from typing import Any, TypeVar

from catgrad.errors import ToolError

MAX_ANSWER_SECONDS = 300.0
"""Seconds after which a message that has no answer is given up."""


class Home:
    """The process in which something is loaded that a fork of the process cannot use."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """Tell whether this is the process."""
        return os.getpid() == self._pid

    def require(self, what: str) -> None:
        """Raise ToolError, which calls the use `what`, in any other process."""
        if not self.is_here:
            raise ToolError(
                f"`{what}` must be called in the process that loaded the program",
                f"process {os.getpid()} is a fork of that, {self._pid}",
                "load the program after the fork",
            )


class Turns:
    """A lock that threads of one process take in turn, and threads of a fork cannot: `RLock` with a home."""

    def __init__(self) -> None:
        self._home, self._lock = Home(), RLock()

    def __enter__(self) -> None:
        self._home.require("learner")
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class JsonProcess:
    """A process that errors call `name`; it answers one message at a time, and ends with this one."""

    def __init__(self, name: str, command: Sequence[str | Path]) -> None:
        self.name, self._lock, self._home = name, Lock(), Home()
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        atexit.register(self.close)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Tell whether it can take another message from this process."""
        return self._home.is_here and self._process.poll() is None

    def exchange(self, what: str, message: Mapping[str, object], limit: float = MAX_ANSWER_SECONDS) -> Any:
        """Return the answer to a message, which errors call `what`.

        Raises: ToolError in a fork, or if the process has ended, ends or takes longer than the limit, in
        seconds.
        """
        self._home.require(what)
        with self._lock:
            if not self.running:
                raise ToolError(
                    f"`{what}` must have a running process", "it was ended", "load the project again"
                )
            answered = self._exchange(f"{json.dumps(message)}\n".encode(), limit)
        if not answered:
            raise ToolError(
                f"`{what}` must end within {limit:g} seconds", self._end(), "load the project again"
            )
        return json.loads(answered)

    def close(self) -> None:
        """End the process, unless this is a fork of the one that started it."""
        if not self._home.is_here:
            return
        atexit.unregister(self.close)
        self._process.kill()
        self._process.communicate()

    def _exchange(self, line: bytes, limit: float) -> bytes:
        """The answer to a line; empty if the process ends before it, as it does when the limit is reached."""
        commands, answers = self._process.stdin, self._process.stdout
        assert commands is not None  # both are pipes
        assert answers is not None
        watch = Timer(limit, self._process.kill)
        watch.daemon = True
        watch.start()
        try:
            commands.write(line)
            commands.flush()
            return answers.readline()
        except OSError:
            return b""
        except BaseException:
            self._process.kill()  # or its answer would be taken for that of the next command
            raise
        finally:
            watch.cancel()

    def _end(self) -> str:
        _, said = self._process.communicate()
        told = said.decode(errors="replace").strip().splitlines()
        error = next((line for line in told if "Error" in line), "")
        return f"{self.name} ended: {error}" if error else "it did not, and was ended"


Started = TypeVar("Started", bound=JsonProcess)


def kept(start: Callable[[], Started]) -> Callable[[], Started]:
    """Return a function that starts a process once, and again after its end or in a fork of this one."""
    found: list[Started] = []

    @wraps(start)
    def process() -> Started:
        if not found or not found[0].running:
            found[:] = [start()]
        return found[0]

    return process

"""Processes of other languages that answer each line of JSON with one of theirs."""

from __future__ import annotations

import atexit
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock, Timer
from typing import Any

from catgrad.errors import ToolError

MAX_ANSWER_SECONDS = 300.0
"""Seconds after which a message that has no answer is given up."""


class JsonProcess:
    """A process that errors call `name`; it answers one message at a time, and ends with this one."""

    def __init__(self, name: str, command: Sequence[str | Path]) -> None:
        self.name, self._lock = name, Lock()
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        atexit.register(self.close)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Tell whether it can take another message."""
        return self._process.poll() is None

    def exchange(self, what: str, message: Mapping[str, Any], limit: float = MAX_ANSWER_SECONDS) -> Any:
        """Return the answer to a message, which errors call `what`.

        Raises: ToolError if the process has ended, ends or takes longer than the limit, in seconds.
        """
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
        """End the process."""
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

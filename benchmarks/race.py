"""Rounds of alternating competitors, after their results have been compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from math import ceil, isclose
from pathlib import Path
from typing import Any

from benchmarks.processes import Competitor, Process, forever
from catgrad.errors import ToolError

TOLERANCE = 1e-3
"""The relative tolerance of losses between competitors."""

REST = 0.25
"""Seconds before each turn of several threads: those of a peer wait for work in a loop for up to 0.2 s."""

DEVICE = "device"
"""The clock of a GPU, which no thread keeps waiting."""


@dataclass
class Result:
    """The times of one competitor and of the kernels of its step in seconds, or why there are none."""

    seconds: float | None = None
    first: float | None = None
    losses: list[float] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)
    reason: str = ""
    kernels: dict[str, float] = field(default_factory=dict)

    def figures(self) -> dict[str, Any]:
        """Return the figures of a row, with the least and the greatest of the rounds, and the first call."""
        if not self.rounds:
            return {"reason": self.reason}
        found = {"seconds": self.seconds, "from": min(self.rounds), "to": max(self.rounds)}
        return {**found, "first": self.first, **({"kernels": self.kernels} if self.kernels else {})}


@contextmanager
def processes(
    competitors: Sequence[Competitor],
    folder: Path,
    threads: int,
    results: Mapping[str, Result],
    left: Callable[[], float] = forever,
) -> Iterator[dict[str, Process]]:
    """Start the processes of competitors that can run, all at once; record the reason for the others."""
    with ExitStack() as stack:
        running = {}
        for competitor in competitors:
            if competitor.missing:
                results[competitor.name].reason = competitor.missing
            else:
                running[competitor.name] = stack.enter_context(Process(competitor, folder, threads, left))
        for name, process in [*running.items()]:
            try:
                process.answer()
            except ToolError as error:
                results[name].reason = error.found
                del running[name]
        yield running


@dataclass(frozen=True)
class Race:
    """The number of rounds, and the approximate seconds of one competitor in each.

    `unit` selects the clock of the workers, by default the processor's with one thread and the wall's with
    more; `middle` computes the figure from the rounds; `tolerance` is that of losses. If they are ready
    `at_once`, competitors build their cases side by side. They are timed within a `turn`, which several races
    take one after the other. The rounds end when no time is `left`. Workers of a GPU tell the `kernels` of a
    step at the end.
    """

    rounds: int
    seconds: float
    say: Callable[[str], None]
    unit: str = ""
    tolerance: float = TOLERANCE
    at_once: bool = False
    kernels: bool = False
    left: Callable[[], float] = forever
    turn: Callable[[], AbstractContextManager[object]] = nullcontext
    middle: Callable[[list[float]], float] = statistics.median

    def run(
        self, competitors: Sequence[Competitor], folder: Path, threads: int, measures: Sequence[str]
    ) -> dict[str, dict[str, Result]]:
        """For each measure the results by competitor."""
        results = {measure: {each.name: Result() for each in competitors} for measure in measures}
        absent: dict[str, Result] = {each.name: Result() for each in competitors}
        with processes(competitors, folder, threads, absent, self.left) as running:
            for measure in measures:
                for name, result in results[measure].items():
                    result.reason = absent[name].reason
                unit = self.unit or ("processor" if threads == 1 else "clock")
                rest = REST if threads > 1 and unit != DEVICE else 0
                self._measure(measure, running, results[measure], unit, rest)
        return results

    def _measure(
        self, measure: str, running: dict[str, Process], results: Mapping[str, Result], unit: str, rest: float
    ) -> None:
        ready: list[str] = []
        for name in list(running) if self.at_once else ():
            with self._excused(running, name, results[name]):
                running[name].send("prepare", measure=measure)
        # catgrad is first in the list but prepared last, so that peers define the expected results.
        for name in reversed(list(running)):
            self.say(f"{name} gets {measure} ready")
            with self._excused(running, name, results[name]):
                if self._prepare(running[name], measure, results):
                    ready.append(name)
        with self.turn():
            self._time(measure, ready, running, results, unit, rest)

    def _time(
        self,
        measure: str,
        names: Sequence[str],
        running: dict[str, Process],
        results: Mapping[str, Result],
        unit: str,
        rest: float,
    ) -> None:
        calls: dict[str, int] = {}
        for name in names:
            with self._excused(running, name, results[name]):
                calls[name] = self._calls(running[name], measure)
        for k in range(self.rounds):
            if self.left() <= 0:
                break
            self.say(f"{measure}, round {k + 1} of {self.rounds}")
            # The order rotates, so that each is first equally often.
            for name in (*names[k % len(names) :], *names[: k % len(names)]) if names else ():
                if name in running:
                    with self._excused(running, name, results[name]):
                        time.sleep(rest)
                        taken = running[name].ask("time", measure=measure, times=calls[name])
                        results[name].rounds.append(taken[unit])
        for name in names:
            if results[name].rounds:
                results[name].seconds = self.middle(results[name].rounds)
            if self.kernels and name in running:
                with self._excused(running, name, results[name]):
                    results[name].kernels = running[name].ask("kernels", measure=measure)

    def _calls(self, process: Process, measure: str) -> int:
        """The number of calls in a round."""
        taken = process.ask("time", measure=measure, times=1)["call"]
        some = process.ask("time", measure=measure, times=ceil(min(self.seconds, 0.05) / taken))
        return ceil(self.seconds / some["call"])

    def _prepare(self, process: Process, measure: str, results: Mapping[str, Result]) -> bool:
        """Return whether the competitor takes part in the measure and agrees with those before it."""
        result = results[process.name]
        answer = process.answer() if self.at_once else process.ask("prepare", measure=measure)
        if answer.get("absent"):
            result.reason = "does not"
            return False
        losses = answer["losses"]
        known = next((each.losses for each in results.values() if each.losses), losses)
        result.reason = disagreement(losses, known, process.competitor.tolerance or self.tolerance)
        if result.reason:
            return False
        result.first, result.losses = answer["seconds"], losses
        return True

    @contextmanager
    def _excused(self, running: dict[str, Process], name: str, result: Result) -> Iterator[None]:
        """Remove a competitor that fails, and keep the reason."""
        try:
            yield
        except ToolError as error:
            running.pop(name, None)
            result.reason = f"failed: {error.found}"


def disagreement(losses: Sequence[float], known: Sequence[float], tolerance: float = TOLERANCE) -> str:
    """Return the first difference between the losses of two competitors; none if they agree."""
    for k, (mine, other) in enumerate(zip(losses, known, strict=True)):
        if not isclose(mine, other, rel_tol=tolerance):
            return f"wrong: its loss {k} is {mine:.6g}, that of others {other:.6g}"
    return ""

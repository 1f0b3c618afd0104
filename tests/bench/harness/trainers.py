"""Programs that train, timed in turns: all have started, but all except one are stopped by SIGSTOP."""

import dataclasses
import json
import os
import re
import signal
import statistics
import subprocess
import time

from harness.commands import first_cores, turns

POLL = 0.001  # seconds between two looks at a file
START_LIMIT = 300  # seconds until the next line of progress
WARM_UP = 3  # steps before the first turn
FEWEST_STEPS = 3  # that a turn takes


@dataclasses.dataclass(frozen=True)
class Mark:
    """What a program had done and used when it wrote a line of progress."""

    seconds: float
    cpu_seconds: float
    step: int
    tokens: int


@dataclasses.dataclass
class Figures:
    """What one program took: a number for each turn, the largest resident memory in bytes, and its number of weights."""

    name: str
    wall: list = dataclasses.field(default_factory=list)  # milliseconds of a step
    cpu: list = dataclasses.field(default_factory=list)  # milliseconds of a step, of all threads
    tokens: list = dataclasses.field(default_factory=list)  # in a step
    peak: int = 0
    weights: int | None = None

    def add(self, first, last):
        steps = last.step - first.step
        self.wall.append(1000 * (last.seconds - first.seconds) / steps)
        self.cpu.append(1000 * (last.cpu_seconds - first.cpu_seconds) / steps)
        self.tokens.append((last.tokens - first.tokens) / steps)

    def median(self, what):
        return statistics.median(getattr(self, what))


def read_json(line):
    """Progress as mtf-train and the peers written in Python report it: step, tokens so far."""
    try:
        values = json.loads(line)
    except ValueError:
        return None
    return (values["step"], values.get("tokens", 0)) if "step" in values else None


class Trainer:
    """A program that trains until it is killed and appends lines of progress to the file `lines`; `read` has step and
    tokens from a line, or None. Its other output is in the file `log`."""

    def __init__(self, name, command, lines, log, threads, environment=None, read=read_json):
        self.figures = Figures(name)
        self.lines, self.log, self.read = lines, log, read
        self.position, self.rest = 0, b""
        with open(log, "w", encoding="utf-8") as file:
            self.process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})}, preexec_fn=first_cores(threads),
            )  # fmt: skip
        try:
            while self.mark().step < WARM_UP:
                pass
            self.process.send_signal(signal.SIGSTOP)
            self.figures.weights = self.weights()
        except BaseException:
            self.end()
            raise

    def weights(self):
        """Their number, from the log of mtf-train or the first line of a peer."""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            found = re.search(r'([\d,]+) parameters|"weights": (\d+)', file.read())
        return int((found[1] or found[2]).replace(",", "")) if found else None

    def progress(self):
        """The newest (step, tokens) since the last call, or None."""
        if not os.path.exists(self.lines) or os.path.getsize(self.lines) == self.position:
            return None
        with open(self.lines, "rb") as file:
            file.seek(self.position)
            text = file.read()
        self.position += len(text)
        *lines, self.rest = (self.rest + text).split(b"\n")
        found = [progress for line in lines if (progress := self.read(line.decode(errors="replace")))]
        return found[-1] if found else None

    def cpu_seconds(self):
        """The time of all threads, by the clock of the process, see clock_getcpuclockid(3)."""
        return time.clock_gettime(~self.process.pid << 3 | 2)

    def mark(self):
        """Waits for a line of progress."""
        limit = time.monotonic() + START_LIMIT
        while not (found := self.progress()):
            if self.process.poll() is not None or time.monotonic() > limit:
                with open(self.log, encoding="utf-8", errors="replace") as file:
                    raise SystemExit(f"{self.figures.name} did not come to its next step:\n{file.read()[-3000:]}")
            time.sleep(POLL)
        return Mark(time.monotonic(), self.cpu_seconds(), *found)

    def take_turn(self, seconds):
        """From one line of progress to another; the step that the turn before has left unfinished does not count."""
        self.progress()
        self.process.send_signal(signal.SIGCONT)
        first = last = self.mark()
        while last.step < first.step + FEWEST_STEPS or last.seconds < first.seconds + seconds:
            last = self.mark()
        self.process.send_signal(signal.SIGSTOP)
        self.figures.add(first, last)

    def peak_memory(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1])

    def end(self):
        self.process.kill()
        self.process.wait()


def take_turns(starts, rounds, seconds, unequal=()):
    """Starts all trainers, gives each `rounds` turns of so many seconds, and returns their
    figures. But for those named in `unequal` they must have equal numbers of weights, where they report them."""
    trainers = []
    try:
        for start in starts:
            trainers.append(start())
        weights = {t.figures.name: t.figures.weights for t in trainers if t.figures.weights and t.figures.name not in unequal}
        if len(set(weights.values())) > 1:
            raise SystemExit(f"numbers of weights differ: {weights}")
        for trainer in turns(trainers, rounds):
            trainer.take_turn(seconds)
        for trainer in trainers:
            trainer.figures.peak = trainer.peak_memory()
        return [trainer.figures for trainer in trainers]
    finally:
        for trainer in trainers:
            trainer.end()

"""Programs that train, timed in turns: all run at once, but all but one are stopped by SIGSTOP. A turn takes a number of
seconds, or three steps if these take longer. Also the options of the scripts that do so, and the tables that they print."""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import time

POLL = 0.0005  # seconds between two looks at a file
START_LIMIT = 300  # seconds until the first steps of a program
WARM_UP = 3  # steps before the first turn
FEWEST_STEPS = 3  # of a turn


def passive_threads(threads):
    """The environment in which threads of PyTorch sleep while they wait."""
    return {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}


class Program:
    """A program that trains and writes a line of JSON to a file after each step; stopped but for its turns."""

    def __init__(self, name, command, lines, log, environment=None):
        self.name, self.lines, self.log = name, lines, log
        self.position = 0
        self.wall, self.cpu = [], []  # milliseconds of each step, and of a step as the mean of each turn
        self.first_loss = None
        self.weights = None
        with open(log, "w", encoding="utf-8") as file:
            self.process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})},
            )  # fmt: skip
        try:
            done, limit = 0, time.monotonic() + START_LIMIT
            while done < WARM_UP:
                steps = self.wait(limit)
                if self.first_loss is None:
                    self.first_loss = steps[0]["loss"]
                done += len(steps)
            self.process.send_signal(signal.SIGSTOP)
        except BaseException:
            self.end()
            raise

    def new_steps(self):
        """The lines of steps that the file has got since the last call."""
        if not os.path.exists(self.lines) or os.path.getsize(self.lines) == self.position:
            return []
        with open(self.lines, "rb") as file:
            file.seek(self.position)
            whole = file.read().rpartition(b"\n")[0]
        self.position += len(whole) + (len(whole) > 0)
        lines = [json.loads(line) for line in whole.splitlines()]
        for line in lines:
            self.weights = line.get("weights", self.weights)
        return [line for line in lines if "step" in line]

    def wait(self, limit):
        """Returns the next steps."""
        while not (steps := self.new_steps()):
            if self.process.poll() is not None or time.monotonic() > limit:
                with open(self.log, encoding="utf-8") as file:
                    raise SystemExit(f"{self.name} did not come to its next step:\n{file.read()[-2000:]}")
            time.sleep(POLL)
        return steps

    def cpu_seconds(self):
        """The time of all threads, by the clock of the process, see clock_getcpuclockid(3)."""
        return time.clock_gettime(~self.process.pid << 3 | 2)

    def take_turn(self, seconds):
        """The first step of a turn began in the one before, and does not count."""
        self.new_steps()
        self.process.send_signal(signal.SIGCONT)
        last = self.wait(time.monotonic() + START_LIMIT)[-1]
        begin, cpu, steps = time.monotonic(), self.cpu_seconds(), 0
        while steps < FEWEST_STEPS or time.monotonic() < begin + seconds:
            for line in self.wait(time.monotonic() + START_LIMIT):
                self.wall.append(1000 * (line["time"] - last["time"]))
                last = line
                steps += 1
        self.cpu.append(1000 * (self.cpu_seconds() - cpu) / steps)
        self.process.send_signal(signal.SIGSTOP)

    def peak_memory(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1])

    def figures(self):
        return {
            "name": self.name,
            "steps": len(self.wall),
            "wall_ms": statistics.median(self.wall),
            "wall_ms_best": min(self.wall),
            "cpu_ms": statistics.median(self.cpu),
            "cpu_ms_best": min(self.cpu),
            "memory_bytes": self.peak_memory(),
            "first_loss": self.first_loss,
            "turns_cpu_ms": self.cpu,
        }

    def end(self):
        self.process.kill()
        self.process.wait()


def start_mtf_train(name, options, configuration, run, arguments=()):
    """`options` have mtf_train, the path of the program, and threads."""
    command = [
        options.mtf_train, configuration, f"run.model_dir={run}", f"run.threads={options.threads}", *arguments,
    ]  # fmt: skip
    program = Program(name, command, f"{run}/metrics.jsonl", f"{run}.log")
    with open(program.log, encoding="utf-8") as file:
        program.weights = int(re.search(r"([\d,]+) parameters", file.read())[1].replace(",", ""))
    return program


def take_turns(what, starts, options, unequal=()):
    """Starts all programs, gives each a turn of options.seconds, options.rounds times, and returns their figures. But
    for those named in `unequal` they must have equal numbers of weights.

    Wall times are those between two steps of a turn, median and best of all turns. CPU times are means of the steps of a
    turn, of all threads; median and best turn. Memory is the largest that was resident (VmHWM). Machines are noisy, so
    that only figures of one run should be compared; on a machine with other work, look at CPU times.
    """
    programs = []
    try:
        for start in starts:
            programs.append(start())
        weights = [program.weights for program in programs if program.name not in unequal]
        if len(set(weights)) != 1:
            raise SystemExit(f"{what}: numbers of weights differ: {weights}")
        for _ in range(options.rounds):
            for program in programs:
                program.take_turn(options.seconds)
        return [program.figures() for program in programs]
    finally:
        for program in programs:
            program.end()


def options_of_turns(description):
    """A parser of the options that all scripts have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mtf_train", nargs="?", default="build/bin/mtf-train", type=os.path.abspath)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="of a turn")
    parser.add_argument("--at-least", type=float, default=0, help="the least ratio of CPU times")
    parser.add_argument("--json", help="a file for all figures")
    return parser


class Table:
    """A Markdown table of what programs took, printed row by row. `kind` is what is trained, the heading of the first
    column; with `tokens`, those of a step, there is a column of tokens per second."""

    def __init__(self, kind, tokens=None):
        self.tokens = tokens
        headings = [kind, "program", "wall ms, median", "best", "CPU ms, median", "best"]
        headings += ["tokens/s"] * (tokens is not None) + ["peak memory"]
        print(f"| {' | '.join(headings)} |\n{'|---' * len(headings)}|", flush=True)

    def add(self, what, figures):
        for f in figures:
            cells = [what, f["name"]] + [f"{f[name]:.2f}" for name in ("wall_ms", "wall_ms_best", "cpu_ms", "cpu_ms_best")]
            if self.tokens is not None:
                cells.append(f"{self.tokens / f['wall_ms'] * 1000:,.0f}")
            print(f"| {' | '.join(cells)} | {f['memory_bytes'] / 1e6:,.0f} MB |", flush=True)

    def add_ratio(self, what, name, wall, cpu):
        print(f"| {what} | **{name}** | **{wall:.2f}** | | **{cpu:.2f}** |{' |' * (2 + (self.tokens is not None))}", flush=True)


def write_figures(options, settings, kinds, results):
    """Writes the results, called `kinds`, with the settings to the file options.json, if it is named."""
    if not options.json:
        return
    common = {"threads": options.threads, "rounds": options.rounds, "seconds": options.seconds}
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump({**common, **settings, kinds: results}, file, indent=1)

"""One run of a comparison: its options, its directory, the programs that it starts, and the tables that it prints."""

import contextlib
import json
import os
import shlex
import shutil
import sys
import tempfile

from harness import environments, machine
from harness.commands import run

BENCH = os.path.join(machine.SOURCE, "tests/bench")
COMMON = ("mtf_train", "json", "work", "commit")


class Table:
    """A Markdown table, printed row by row."""

    def __init__(self, headings):
        self.headings, self.rows = headings, []
        self.print(headings)
        print("|---" * len(headings) + "|", flush=True)

    def print(self, cells):
        print(f"| {' | '.join(map(str, cells))} |", flush=True)

    def row(self, *cells):
        self.rows.append(cells)
        self.print(cells)


class Session:
    def __init__(self, options, arguments):
        """`arguments` are those of the command line, which stand above the tables."""
        self.options = options
        self.command = shlex.join(["tests/bench/bench.py", *arguments])
        self.tables, self.failures, self.runs = {}, [], 0
        self.figures = {}  # further ones for --json, by name

    @contextlib.contextmanager
    def opened(self):
        """With a directory for files: --work, or one that is removed at the end."""
        with contextlib.ExitStack() as stack:
            work = self.options.work or stack.enter_context(tempfile.TemporaryDirectory())
            self.work = os.path.abspath(work)
            os.makedirs(self.work, exist_ok=True)
            print(f"{self.command}\n{self.machine()}\n", flush=True)
            yield self

    def machine(self):
        commit = self.options.commit or machine.commit()
        return f"{machine.processor()}, {len(os.sched_getaffinity(0))} cores, commit {commit}"

    def path(self, name):
        return os.path.join(self.work, name)

    def fresh(self, name):
        """The path of a directory that is not there, for a run; another one with each call."""
        self.runs += 1
        path = self.path(f"{name}_{self.runs}")
        shutil.rmtree(path, ignore_errors=True)
        return path

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def program(self, name):
        """A program of this build, beside mtf-train."""
        path = os.path.join(os.path.dirname(self.options.mtf_train), name)
        if not os.path.exists(path):
            raise SystemExit(f"{path} is not there: `cmake --build build --target {name}` makes it")
        return path

    def config(self, name):
        return os.path.join(machine.SOURCE, "configs", name)

    def mtf_train(self, *arguments, threads=1):
        """The Cost of a run of mtf-train in the directory of this session."""
        command = [self.options.mtf_train, *arguments, f"run.threads={threads}"]
        return run(command, threads, cwd=self.work)

    def peer(self, environment, script, *arguments):
        """The command of a program in tests/bench/peers, run by the Python of an environment."""
        return [environments.program(environment), os.path.join(BENCH, "peers", script), *map(str, arguments)]

    def table(self, title, *headings):
        if self.tables:
            print()
        print(f"{title}:\n", flush=True)
        self.tables[title] = Table(headings)
        return self.tables[title]

    def check(self, condition, failure):
        """What does not hold is printed at once, and makes the program exit with 1."""
        if not condition:
            print(failure, file=sys.stderr, flush=True)
            self.failures.append(failure)

    def write_json(self):
        if not self.options.json:
            return
        settings = {key: value for key, value in vars(self.options).items() if key not in COMMON}
        tables = {title: {"headings": table.headings, "rows": table.rows} for title, table in self.tables.items()}
        result = {
            "command": self.command,
            "machine": self.machine(),
            "options": settings,
            "tables": tables,
            "figures": self.figures,
        }
        with open(self.options.json, "w", encoding="utf-8") as file:
            json.dump({**result, "failures": self.failures}, file, indent=1)

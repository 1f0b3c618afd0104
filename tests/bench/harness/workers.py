"""Peers that stay in memory and answer requests; peers/served.py is the other side."""

import json
import os
import subprocess

from harness.commands import Cost, first_cores


class Worker:
    """A program that answers lines of JSON with lines of JSON. It sleeps between requests."""

    def __init__(self, name, command, threads, environment=None):
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})},
            preexec_fn=first_cores(threads),
        )  # fmt: skip
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} has ended with {self.process.wait()}")
        return json.loads(line)

    def ask(self, **request):
        """What the answer holds, and its Cost."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.answer()
        return answer["result"], Cost(answer["wall"], answer["cpu"], answer["peak"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

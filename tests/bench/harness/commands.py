"""What commands cost, and turns of several that are compared."""

import dataclasses
import os
import statistics
import subprocess
import sys
import tempfile
import time


@dataclasses.dataclass(frozen=True)
class Cost:
    wall: float  # seconds
    cpu: float  # seconds of the command and of the children that it has waited for
    peak: int = 0  # bytes of resident memory of the largest process

    def __sub__(self, other):
        """The cost of what this command does beyond the other one."""
        return Cost(self.wall - other.wall, self.cpu - other.cpu, self.peak)


def first_cores(threads):
    """A function for the child: it runs on as many cores as it has threads, if the machine has more."""
    cores = set(sorted(os.sched_getaffinity(0))[:threads])
    return lambda: os.sched_setaffinity(0, cores)


def passive_threads(threads):
    """The environment in which threads of OpenMP sleep while they wait for each other."""
    return {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}


def run(command, threads, environment=None, cwd=None):
    """Runs a command to its end; exits with the end of what it has written if it fails."""
    with tempfile.TemporaryFile() as log:
        begin = time.monotonic()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=cwd, env={**os.environ, **(environment or {})},
            preexec_fn=first_cores(threads),
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            log.seek(max(0, log.tell() - 3000))
            sys.exit(f"{' '.join(map(str, command))}\nended with {process.returncode}:\n{log.read().decode(errors='replace')}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss)


def turns(items, rounds):
    """All of a list once a round, in each round another one first."""
    for number in range(rounds):
        shift = number % len(items)
        yield from items[shift:] + items[:shift]


def alternate(calls, rounds):
    """Makes all calls in turns; their results by name."""
    results = {name: [] for name in calls}
    for name in turns(list(calls), rounds):
        results[name].append(calls[name]())
    return results


def median_ratio(ours, theirs):
    """The median of the rounds' own quotients theirs / ours."""
    return statistics.median(b / a for a, b in zip(ours, theirs, strict=True))

#!/usr/bin/env python3
"""What the cost model of run.mode=explain predicts for a step, and what the step takes: each model on 1, 2, 4 and 8 positions
in a process, and on 1, 2 and 4 processes of one position.

    mtf-launch -n 2 -- mtf-train run.mode=calibrate calibrate.output=here.yaml     # first, on the same machine
    tests/bench/predicted_vs_measured.py build/bin/mtf-train here.yaml [KEY=VALUE...] --model NAME=FILE.yaml...

Two times are compared. Seconds of the day are medians over the steps of a run, and mean something on a machine that has
nothing else to do. Processor seconds of a step are the difference between a longer and a shorter run, of all processes
together: other programs hardly change them. What is predicted of them is the time without waiting, times the cores that the
run uses."""

import json
import os
import resource
import statistics
import subprocess
import tempfile

from model_runs import argument_parser, run_arguments, step_seconds


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Case:
    def __init__(self, options, model, positions, processes, threads):
        self.options, self.positions, self.processes, self.threads = options, positions, processes, threads
        self.name, file = model.split("=", 1)
        layout = [f"mesh=all:{positions}", f"layout={options.layout}"] if positions > 1 else []
        self.arguments = [file, *options.arguments, *layout, f"run.threads={threads}"]

    def predicted(self):
        command = [self.options.program, *self.arguments, "run.mode=explain", "explain.format=json", "explain.tensors=false",
                   f"hardware={self.options.hardware}", f"cluster.processes={self.processes}"]
        document = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        prediction, cores = document["prediction"], document["hardware"]["cores"]
        used = min(cores, self.processes * self.threads)
        return prediction["seconds"], (prediction["seconds"] - prediction["waiting"]) * used

    def run(self, steps):
        """Runs so many steps; returns the median seconds of a step and the processor seconds of the run."""
        with tempfile.TemporaryDirectory() as directory:
            launch = [os.path.join(os.path.dirname(self.options.program), "mtf-launch"), "-n", str(self.processes), "--"]
            command = [*(launch if self.processes > 1 else []), self.options.program, *self.arguments,
                       *run_arguments(directory, steps)]
            before = processor_seconds()
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            used = processor_seconds() - before
            times = step_seconds(directory)
        return statistics.median(times[1:]), used

    def measured(self):
        few, many = self.options.steps
        self.run(few)  # files are in memory afterwards
        rounds = [(self.run(few), self.run(many)) for _ in range(self.options.rounds)]
        seconds = min(long[0] for _, long in rounds)
        return seconds, statistics.median((long[1] - short[1]) / (many - few) for short, long in rounds)

    def row(self):
        (predicted, predicted_cpu), (measured, measured_cpu) = self.predicted(), self.measured()
        return {"model": self.name, "positions": self.positions, "processes": self.processes, "threads": self.threads,
                "predicted": predicted, "measured": measured, "predicted_processor": predicted_cpu,
                "measured_processor": measured_cpu}


def cases(options):
    threads = [int(count) for count in options.threads.split(",")]
    for model in options.model:
        for count in threads:
            for positions in [int(n) for n in options.positions.split(",")]:
                yield Case(options, model, positions, 1, count)
        for processes in [int(n) for n in options.processes.split(",")]:
            if processes > 1:
                yield Case(options, model, processes, processes, 1)


def line(row):
    off = 100 * (row["predicted"] / row["measured"] - 1)
    off_processor = 100 * (row["predicted_processor"] / row["measured_processor"] - 1)
    return (f"| {row['model']} | {row['positions']} | {row['processes']} | {row['threads']} "
            f"| {row['predicted_processor'] * 1e3:.1f} ms | {row['measured_processor'] * 1e3:.1f} ms | {off_processor:+.0f} % "
            f"| {row['predicted'] * 1e3:.1f} ms | {row['measured'] * 1e3:.1f} ms | {off:+.0f} % |")


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--layout", default="batch:all")
    parser.add_argument("--positions", default="1,2,4,8", help="in one process")
    parser.add_argument("--processes", default="1,2,4", help="with a position each")
    parser.add_argument("--threads", default="1,2", help="of one process")
    parser.add_argument("--steps", type=int, nargs=2, default=[3, 13], help="of the shorter and the longer run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="file for the figures")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    print("| model | positions | processes | threads | processor, predicted | measured | | step, predicted | measured | |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    rows = []
    for case in cases(options):
        rows.append(case.row())
        print(line(rows[-1]), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()

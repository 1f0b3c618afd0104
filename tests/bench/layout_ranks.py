#!/usr/bin/env python3
"""Whether run.mode=explain puts layouts in the order of their speed: for each model random legal layouts of one process for each
position, their predicted and measured seconds of a step, and Kendall's tau of the two orders. Mean nothing unless the machine
has nothing else to do.

    mtf-launch -n 2 -- mtf-train run.mode=calibrate calibrate.output=here.yaml     # first, on the same machine
    tests/bench/layout_ranks.py build/bin/mtf-train here.yaml [KEY=VALUE...] --model NAME=FILE.yaml...
"""

import itertools
import json
import os
import random
import statistics
import subprocess
import tempfile

from model_runs import argument_parser, run_arguments, step_seconds

MESHES = ({"a": 2}, {"a": 4}, {"a": 2, "b": 2})


def tau(pairs, alike):
    """Kendall's tau of pairs (predicted, measured), without pairs of layouts whose measured times differ by less than
    `alike` of themselves, which are no order."""
    agree = differ = 0
    for (p, m), (q, n) in itertools.combinations(pairs, 2):
        if abs(m - n) <= alike * max(m, n):
            continue
        agree += (p - q) * (m - n) > 0
        differ += (p - q) * (m - n) <= 0
    return (agree - differ) / (agree + differ), agree + differ


class Model:
    def __init__(self, options, name, file):
        self.options, self.name, self.file = options, name, file
        self.launch = os.path.join(os.path.dirname(options.program), "mtf-launch")
        self.dimensions = sorted({dimension for tensor in self.explain([])["tensors"] for dimension in tensor["dimensions"]})

    def explain(self, arguments):
        command = [self.options.program, self.file, *self.options.arguments, *arguments, "run.mode=explain", "explain.format=json",
                   "run.threads=1"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def layouts(self, count):
        """Legal layouts with different predictions: (arguments, processes, predicted seconds)."""
        r = random.Random(self.options.seed)
        found, seen = [], set()
        for _ in range(60 * count):
            mesh = r.choice(MESHES)
            rules = {}
            for axis in mesh:
                for name in r.sample(self.dimensions, r.choice((0, 1, 1, 2))):
                    rules.setdefault(name, axis)
            if "batch" in self.dimensions and r.random() < 0.4:
                rules["batch"] = r.choice(list(mesh))
            processes = 1
            for size in mesh.values():
                processes *= size
            arguments = [f"mesh={json.dumps(mesh)}", f"layout={json.dumps(rules)}"]
            explained = self.explain([*arguments, f"hardware={self.options.hardware}", f"cluster.processes={processes}",
                                      "explain.tensors=false"])
            if explained is None or (key := (processes, round(explained["prediction"]["seconds"], 7))) in seen:
                continue
            seen.add(key)
            found.append((arguments, processes, explained["prediction"]["seconds"]))
            if len(found) == count:
                break
        return found

    def measured(self, arguments, processes):
        with tempfile.TemporaryDirectory() as directory:
            command = [self.launch, "-n", str(processes), "--", self.options.program, self.file, *self.options.arguments, *arguments,
                       "run.threads=1", *run_arguments(directory, self.options.steps)]
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            return statistics.median(step_seconds(directory)[2:])


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--layouts", type=int, default=20)
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--rounds", type=int, default=3, help="the least of so many runs counts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--alike", type=float, default=0.05, help="measured times that differ by less have no order")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    for argument in options.model:
        model = Model(options, *argument.split("=", 1))
        layouts = model.layouts(options.layouts)
        times = [min(model.measured(arguments, processes) for _ in range(options.rounds)) for arguments, processes, _ in layouts]
        for (arguments, _, predicted), measured in sorted(zip(layouts, times), key=lambda row: row[1]):
            print(f"{model.name}: {' '.join(arguments)}: {predicted * 1e3:.1f} ms predicted, {measured * 1e3:.1f} ms measured")
        value, pairs = tau([(predicted, measured) for (_, _, predicted), measured in zip(layouts, times)], options.alike)
        print(f"{model.name}: Kendall's tau {value:.2f} of {len(layouts)} layouts, {pairs} pairs", flush=True)


if __name__ == "__main__":
    main()

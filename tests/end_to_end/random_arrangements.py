"""Trains small models of every kind with random options: once on one position, and once under an arrangement that changes
at every stop. What both have logged, evaluated, written and stored must be the same up to rounding.

    random_arrangements.py PROGRAM CASES [SEED [CASE...]]    in an empty directory; CASE: only these

An arrangement is a mesh, three layouts, stages of a pipeline, a number of processes, of microbatches and of threads, and
what is recomputed.
Layouts are drawn blindly: the program must refuse an illegal one with exit code 2 and a message before it has begun, and
then another is drawn.
"""

import collections
import concurrent.futures
import json
import math
import os
import subprocess
import sys
import threading

import numpy as np
from random_models import STEPS, ROWS, make_case, write_data
from safetensors.numpy import load_file

MESHES = [[2], [2], [2, 1], [1, 2], [2, 2], [2, 2], [4], [8], [2, 2, 2]]
USUAL = set("batch length memory_length d_model heads d_kv d_ff vocab experts expert_hidden max_length".split())
ON_GPU = os.environ.get("MTF_TEST_DEVICES", "cpu") != "cpu"  # some arrangements are on a GPU, whose functions differ


def rules(r, axes, dimensions, share, taken=()):
    """A layout: mostly one to three dimensions over a mesh dimension, seldom one over two."""
    layout = {}
    free = [name for name in dimensions if name not in taken]
    usual = [name for name in free if name in USUAL]
    for axis in axes:
        if not r.chance(share):
            continue
        names = [r.choice(usual if usual and r.chance(0.85) else free) for _ in range(r.pick(1, 1, 2, 3))] if free else []
        if "batch" in free and r.chance(0.4):
            names[0] = "batch"
        for name in dict.fromkeys(names):
            if name not in layout:
                layout[name] = axis
            elif r.chance(0.3):
                layout[name] = [layout[name], axis] if isinstance(layout[name], str) else layout[name] + [axis]
    return layout


def draw_arrangement(case, r, dimensions, training=True):
    """Options and the number of processes."""
    sizes = r.choice(MESHES)
    axes = r.sample(["x", "y", "z", "rows"], len(sizes))
    positions = math.prod(sizes)
    mesh = dict(zip(axes, sizes))
    stages = axes.pop(r.randint(0, len(axes) - 1)) if r.chance(0.3) else None
    weights = [name for name in dimensions if name not in ("batch", "length", "memory_length")]
    layout = rules(r, axes, dimensions, 0.9)
    if stages:
        layout["layers"] = stages
    options = {"mesh": mesh, "layout": layout, "run.threads": r.randint(1, 3)}
    if stages:
        options["pipeline"] = {"schedule": r.pick("1f1b", "1f1b", "gpipe"), "rounds": r.pick(1, 1, 2)}
    if r.chance(0.3):
        options["parameter_layout"] = rules(r, axes, weights, 0.7, layout)
    if training:
        if r.chance(0.3):
            options["optimizer_layout"] = rules(r, axes, weights, 0.7, layout)
        options["train.microbatches"] = case.fixed_microbatches or r.pick(1, 1, 2, 4)
        options["train.recompute"] = r.pick("none", "none", "block")
        if case.has_even_rows() and r.chance(0.3):
            options["train.loss_chunks"] = 2
        options |= r.some(
            0.15, **{"train.keep_gathered": True, "train.gather_ahead": 2, "run.check_replicas": True, "cluster.overlap": False}
        )
        if case.teacher:
            options |= r.some(0.5, **{"distill.layout": lambda: rules(r, axes, dimensions, 0.8)})
            if "distill.layout" in options:
                options |= r.some(
                    0.4, **{"distill.parameter_layout": lambda: rules(r, axes, weights, 0.7, options["distill.layout"])}
                )
    processes = r.choice([n for n in (1, 1, 2, 4) if positions % n == 0])
    if ON_GPU and r.chance(0.7):
        options["devices"] = "cuda:0" if positions == processes else f"cuda:0*{positions // processes}"
    return options, processes


class Difference(Exception):
    def __repr__(self):
        return str(self)


class Runner:
    """Runs the program for one case, whose files begin with its name."""

    def __init__(self, program, name):
        self.program, self.name = program, name
        self.commands = []

    def run(self, config, options, processes=1):
        """The exit code and the output."""
        words = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in options.items()]
        command = (
            ([os.path.join(os.path.dirname(self.program), "mtf-launch"), "-n", str(processes), "--"] if processes > 1 else [])
            + [self.program, config]
            + words
        )
        self.commands.append(" ".join("'" + word + "'" if any(c in word for c in ' "{[;') else word for word in command))
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=600)
        return done.returncode, done.stdout.decode(errors="replace")

    def must(self, config, options, processes=1):
        code, output = self.run(config, options, processes)
        if code != 0:
            raise Difference(f"exit code {code}: {self.commands[-1]}\n{output[-3000:]}")
        return output


refusals = collections.Counter()  # messages about illegal layouts, without names and numbers
counts = collections.Counter()
largest = collections.defaultdict(float)  # largest differences that count as rounding
lock = threading.Lock()


def arranged(case, r, runner, config, options, dimensions, training=True):
    """Runs the program under the first legal arrangement that is drawn, and returns the output."""
    for _ in range(60):
        arrangement, processes = draw_arrangement(case, r, dimensions, training)
        code, output = runner.run(config, options | arrangement, processes)
        if code == 0:
            with lock:
                counts["arrangements"] += 1
                counts[f"{processes} processes"] += 1
                counts["with stages"] += "pipeline" in arrangement
            return output
        message = next((line for line in output.splitlines() if not line.startswith("[") or "[0] " in line), "")
        if code != 2 or not any(word in output for word in ("layout", "split", "stages")) or "Check failed" in output:
            raise Difference(f"exit code {code}: {runner.commands[-1]}\n{output[-3000:]}")
        runner.commands.pop()
        with lock:
            counts["refused"] += 1
            refusals[message[:200]] += 1
    raise Difference(f"no legal arrangement among 60\n{output[-1000:]}")


# ---- Comparison ----
NOT_COMPARED = ("time", "seconds", "step_ms", "per_second", "memory_bytes", "mfu")


def records(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def close(what, a, b, tolerance, least=1e-6):
    if a == b:
        return
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            close(f"{what}[{i}]", x, y, tolerance, least)
        return
    if not all(isinstance(x, (int, float)) for x in (a, b)):
        raise Difference(f"{what}: {a} and {b}")
    size = max(abs(a), abs(b))
    if not abs(a - b) <= tolerance * size + least:
        raise Difference(f"{what}: {a} and {b}, by {abs(a - b) / size:.2g}")


def compare_records(case, path, one, other):
    by_step = {record["step"]: record for record in records(other + path)}
    for record in records(one + path):
        step = record["step"]
        if step not in by_step:
            raise Difference(f"{path}: no step {step}")
        found = by_step[step]
        if record.keys() != found.keys():
            raise Difference(f"{path}, step {step}: only one has {sorted(record.keys() ^ found.keys())}")
        for key, value in record.items():
            if any(part in key for part in NOT_COMPARED):
                continue
            if key in ("report/router/max_logit", "report/router/min_gap") and case.fixed_microbatches is None:
                continue
            tolerance = 1e-3 if key in ("report/gradient_noise_scale", "report/router/min_gap") else case.loss
            # One token in a thousand may go to an expert that is as good as another, but for rounding. A correlation near 0
            # is a small difference of large sums.
            least = 1e-3 if key.endswith("/load") else 1e-4 if key in ("pearson", "spearman", "matthews") else 1e-6
            close(f"{path}, step {step}: {key}", value, found[key], tolerance, least)


def compare_weights(case, runner, one, other):
    for run in (one, other):
        command = [os.path.join(os.path.dirname(runner.program), "mtf-convert"), run, run + ".safetensors", "--all", "--force"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    a, b = load_file(one + ".safetensors"), load_file(other + ".safetensors")
    if a.keys() != b.keys():
        raise Difference(f"only one has {sorted(a.keys() ^ b.keys())[:5]}")
    for name, x in a.items():
        y = b[name].astype(np.float64)
        x = x.astype(np.float64)
        if x.shape != y.shape:
            raise Difference(f"{name}: shapes {x.shape} and {y.shape}")
        if case.weight is None:
            continue
        size = np.maximum(np.maximum(abs(x), abs(y)), math.sqrt(np.mean(x * x)) if x.size else 0)
        worst = np.max(abs(x - y) - (case.weight * size + 1e-7), initial=-1)
        if not worst <= 0:
            i = np.unravel_index(np.argmax(abs(x - y) - case.weight * size), x.shape)
            raise Difference(f"{name}{list(map(int, i))}: {x[i]} and {y[i]}, root mean square {math.sqrt(np.mean(x * x)):.3g}")


def compare_texts(one_path, other_path):
    with open(one_path) as one, open(other_path) as other:
        for i, (x, y) in enumerate(zip(map(json.loads, one), map(json.loads, other), strict=True)):
            if x.keys() != y.keys():
                raise Difference(f"text {i}: {x} and {y}")
            for key in x:
                values = [v if isinstance(v, list) else [v] for v in (x[key], y[key])]
                if len(values[0]) != len(values[1]):
                    raise Difference(f"text {i}: {x} and {y}")
                for a, b in zip(*values):
                    close(f"text {i}: {key}", a, b, 1e-4)


def dimensions_of(runner, config):
    """The names of the dimensions of all tensors of a training step."""
    explanation = json.loads(runner.must(config, {"run.mode": "explain", "explain.format": "json"}))
    names = {name for tensor in explanation["tensors"] + explanation["variables"] for name in tensor["dimensions"]}
    return sorted(name for name in names if name.replace("_", "").isalnum() and not name.startswith("_"))


def run_case(program, seed, number):
    case = make_case(seed, number, os.environ.get("KINDS", ""))
    if ON_GPU:
        case.loss, case.weight = 20 * case.loss, case.weight and 100 * case.weight
    name = f"case_{number}"
    runner = Runner(program, name)
    r = case.r
    try:
        if case.teacher:
            teacher = case.teacher | {
                "train": {"steps": 2, "batch_size": ROWS},
                "run": case.config["run"],
                "optimizer": "sgd",
                "learning_rate": 0.1,
            }
            with open(name + ".teacher.yaml", "w") as file:
                json.dump(teacher, file)
            runner.must(name + ".teacher.yaml", {"run.model_dir": name + ".teacher"})
            case.config["distill"]["checkpoint"] = name + ".teacher"
        config = name + ".yaml"
        with open(config, "w") as file:
            json.dump(case.config, file)
        one, moves = name + ".one", name + ".moves"
        runner.must(config, {"run.model_dir": one})
        dimensions = dimensions_of(runner, config)
        step = 0
        while step < STEPS:
            step = min(STEPS, step + r.randint(1, 4))
            arranged(case, r, runner, config, {"run.model_dir": moves, "train.steps": step}, dimensions)
        compare_records(case, "/metrics.jsonl", one, moves)
        compare_records(case, "/evaluate.jsonl", one, moves)
        compare_weights(case, runner, one, moves)
        if case.texts:
            options = {"run.mode": "infer", "run.model_dir": one, "infer.format": "jsonl"} | case.texts
            runner.must(config, options | {"infer.output": name + ".one.jsonl"})
            arranged(case, r, runner, config, options | {"infer.output": name + ".moves.jsonl"}, dimensions, training=False)
            compare_texts(name + ".one.jsonl", name + ".moves.jsonl")
            options = {"run.mode": "score", "run.model_dir": one, "score.per_token": True} | case.scores
            runner.must(config, options | {"score.output": name + ".one.scores"})
            arranged(case, r, runner, config, options | {"score.output": name + ".moves.scores"}, dimensions, training=False)
            compare_texts(name + ".one.scores", name + ".moves.scores")
        with lock:
            counts["cases"] += 1
        return None
    except (Difference, subprocess.SubprocessError, AssertionError, KeyError, ValueError, OSError) as problem:
        return (
            f"case {number} of seed {seed} ({case.kind}): {problem!r}\n"
            + json.dumps(case.config)
            + "\n"
            + "\n".join(runner.commands)
        )


def main():
    program, cases = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    numbers = [int(word) for word in sys.argv[4:]] or range(cases)
    write_data()
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("MTF_TEST_JOBS", os.cpu_count()))) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run_case, program, seed, number) for number in numbers]):
            if done.result():
                failures += 1
                print(done.result(), flush=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    if os.environ.get("VERBOSE"):
        for message, count in refusals.most_common(40):
            print(f"{count:5d} {message}")
    if failures:
        sys.exit(f"FAIL: {failures} of {len(numbers)} cases differ")


main()

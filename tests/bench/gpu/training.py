"""Compares a training step of mtf-train with PyTorch's: equal initial weights, equal rows, equal Adam, in turns.

The losses and norms of gradients of the first steps are compared, too: a side that computes something else is not
faster. Speeds are those of the steps after them, by the clock, with batches that come from the host's memory.
"""

import argparse
import importlib.util
import json
import os
import re
import shutil
import statistics
import sys
import tempfile

import corpus
import machine
import profile_shares
import safetensors_file

HERE = os.path.dirname(os.path.abspath(__file__))
UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}  # as the log writes sizes
OURS, SIDES = "mtf-train", ("mtf-train", "eager", "compiled")


def parse(description, defaults, tiny):
    """Sizes are `defaults`, or with --tiny those that an emulated GPU can bear; each can be given."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mtf_train", metavar="build/bin/mtf-train")
    for name in defaults:
        parser.add_argument("--" + name.replace("_", "-"), type=int, help=f"default {defaults[name]}, tiny {tiny[name]}")
    parser.add_argument("--tiny", action="store_true", help="sizes that show whether it works, not how fast it is")
    parser.add_argument("--precision", choices=["bfloat16", "float32"], default="bfloat16", help="of activations")
    parser.add_argument("--sides", default=",".join(SIDES), help="some of %(default)s (PyTorch eager and compiled)")
    parser.add_argument("--peak", type=float, default=989e12, help="FLOP/s of the card, for MFU (%(default)g)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of mtf-train's configuration")
    parser.add_argument("--profile", action="store_true", help="where the time of mtf-train's step goes, by one more run")
    parser.add_argument("--loss-tolerance", type=float, help="default 1e-4 in float32, 1e-3 in bfloat16")
    parser.add_argument("--norm-tolerance", type=float, help="default 1e-3 in float32, 1.5e-2 in bfloat16")
    machine.add_arguments(parser)
    options = parser.parse_args()
    for name, value in (tiny if options.tiny else defaults).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    bfloat16 = options.precision == "bfloat16"
    options.loss_tolerance = options.loss_tolerance or (1e-3 if bfloat16 else 1e-4)
    options.norm_tolerance = options.norm_tolerance or (1.5e-2 if bfloat16 else 1e-3)
    options.sides = options.sides.split(",")
    if not options.sides or set(options.sides) - set(SIDES):
        parser.error(f"--sides: some of {','.join(SIDES)}")
    if options.steps <= options.untimed:
        parser.error(f"--steps must be more than the {options.untimed} of --untimed")
    if set(options.sides) - {OURS} and not importlib.util.find_spec("torch"):
        parser.error("this Python has no torch; --sides mtf-train goes without")
    return options


class Comparison:
    """`config` is mtf-train's, without what is the same for all; `features` maps file names to names of features."""

    def __init__(self, options, config, features, layers, directory):
        self.options, self.features, self.directory = options, features, directory
        self.environment = machine.environment(options.mtf_train, options.emulator)
        self.program = os.path.abspath(options.mtf_train)
        self.rounds = {side: [] for side in options.sides}
        self.failures = {}
        self.write_data()
        config["data"].update(
            vocabulary={"type": "t2t", "path": "words.subwords"}, sequence_length=options.length, packing="none",
            shuffle=False, cache="cache",
        )  # fmt: skip
        config.update(
            optimizer={"type": "adam", "scaled_steps": False},
            learning_rate=options.learning_rate,
            precision={"activation": options.precision},
            devices="cuda",
            train={"steps": options.steps, "batch_size": options.batch, "log_every": 1},
            checkpoint={"every": 0},
        )
        with open(f"{directory}/run.yaml", "w", encoding="utf-8") as file:
            json.dump(config, file)
        self.specification = {
            "model": config["model"]["type"], "layers": layers, "heads": options.heads, "ids": f"{directory}/ids",
            "weights": f"{directory}/weights", "precision": options.precision, "learning_rate": options.learning_rate,
            "batch": options.batch, "steps": options.steps, "untimed": options.untimed,
            "device": "cpu" if options.emulator else "cuda",
        }  # fmt: skip

    def write_data(self):
        options, ids = self.options, {}
        rows = options.steps * options.batch
        corpus.write_vocabulary(f"{self.directory}/words.subwords", options.vocabulary)
        for seed, (name, feature) in enumerate(self.features.items()):
            values = corpus.make_ids(rows, options.length, options.vocabulary, seed)
            corpus.write_text(f"{self.directory}/{name}", values, options.length)
            ids[feature] = (values, [rows, options.length])
        safetensors_file.write_ids(f"{self.directory}/ids", ids)
        first = {f"input/{name}": (values[: options.length], [1, options.length]) for name, (values, _) in ids.items()}
        safetensors_file.write_ids(f"{self.directory}/row", first)

    def mtf_train(self, *arguments):
        command = [self.program, "run.yaml", *self.options.set, *arguments]
        return machine.run(command, cwd=self.directory, env=self.environment)

    def export_weights(self):
        """Those that mtf-train begins with: a trace of one row with a learning rate of 0."""
        self.mtf_train("run.mode=trace", "trace.input=row", "trace.output=weights", "trace.steps=1", "optimizer=sgd",
                       "learning_rate=0")  # fmt: skip

    def run_ours(self):
        run = f"{self.directory}/run"
        self.mtf_train("run.model_dir=run")
        with open(f"{run}/metrics.jsonl", encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        with open(f"{run}/log.txt", encoding="utf-8") as file:
            planned = re.search(r"memory of the GPU: ([\d.,]+) (\w+) planned", file.read())
        shutil.rmtree(run)  # the checkpoint that ends a run
        first, untimed, last = lines[0], lines[self.options.untimed - 1], lines[-1]
        if first["tokens"] != self.options.batch * self.options.length:
            raise SystemExit(f"mtf-train reads {first['tokens']} tokens in a step, not batch * length")
        observed = lines[: self.options.untimed]
        return {
            "seconds": last["time"] - untimed["time"], "losses": [line["loss"] for line in observed],
            "gradient_norms": [line["grad_norm"] for line in observed], "peak_bytes": last["memory_bytes"],
            "flops_per_second": last.get("model_flops_per_second"),
            "planned_bytes": float(planned[1].replace(",", "")) * UNITS[planned[2]],
        }  # fmt: skip

    def profile(self):
        """Shares of a step, from up to three steps behind the untimed ones."""
        untimed = self.options.untimed
        steps = min(3, self.options.steps - untimed)
        self.mtf_train("run.model_dir=profiled", f"profile.skip={untimed}", f"profile.steps={steps}", f"train.steps={untimed + steps}")
        return profile_shares.shares(f"{self.directory}/profiled/profile.json")

    def run_torch(self, side):
        path = f"{self.directory}/torch.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**self.specification, "compiled": side == "compiled"}, file)
        output = machine.run([sys.executable, f"{HERE}/torch_trainer.py", path])
        return json.loads(output.strip().split("\n")[-1])

    def run_round(self, number):
        """Each side once, another one first in each round. A side of PyTorch that fails (out of memory, no compiler) takes no
        further part."""
        sides = list(self.rounds)
        shift = number % len(sides)
        for side in sides[shift:] + sides[:shift]:
            try:
                with machine.CardMemory() as memory:
                    result = self.run_ours() if side == OURS else self.run_torch(side)
            except machine.ProgramFailed as failure:
                if side == OURS:
                    raise
                self.failures[side] = str(failure)
                del self.rounds[side]
                print(f"round {number + 1}: {side} has failed: {failure}", flush=True)
                continue
            self.add(side, {**result, "card_bytes": memory.peak})
            print(f"round {number + 1}: {side:10} {self.rounds[side][-1]['tokens_per_second']:14,.0f} tokens/s", flush=True)

    def add(self, side, result):
        options = self.options
        tokens = (options.steps - options.untimed) * options.batch * options.length
        self.rounds[side].append({**result, "tokens_per_second": tokens / result["seconds"]})


def largest_difference(ours, theirs):
    return max(abs(a - b) / abs(b) if b == b and a == a else float("inf") for a, b in zip(ours, theirs, strict=True))


def summarize(rounds, flops, peak):
    """Medians by side; the ratio of rounds' own speeds to those of mtf-train."""
    result = {}
    for side, runs in rounds.items():
        speed = statistics.median(run["tokens_per_second"] for run in runs)
        result[side] = {"tokens_per_second": speed, "mfu": speed * flops / peak, "rounds": runs}
        if side != OURS and OURS in rounds:
            pairs = zip(rounds[OURS], runs)
            ratios = [ours["tokens_per_second"] / run["tokens_per_second"] for ours, run in pairs]
            result[side]["ours_to_this"] = statistics.median(ratios)
    return result


def check(rounds, options):
    """Differences to mtf-train by side; whether all are within the tolerances."""
    first = {side: runs[0] for side, runs in rounds.items()}
    result, good = {}, True
    for side in [side for side in first if side != OURS and OURS in first]:
        loss = largest_difference(first[OURS]["losses"], first[side]["losses"])
        norm = largest_difference(first[OURS]["gradient_norms"], first[side]["gradient_norms"])
        result[side] = {"loss": loss, "gradient_norm": norm}
        good = good and loss <= options.loss_tolerance and norm <= options.norm_tolerance
    return result, good


def print_first_steps(rounds, options):
    print("first steps: loss and norm of gradients")
    print("step  " + "".join(f"{side:>24}" for side in rounds))
    for step in range(options.untimed):
        runs = [runs[0] for runs in rounds.values()]
        print(f"{step + 1:4}  " + "".join(f"{run['losses'][step]:14.5f}{run['gradient_norms'][step]:10.4f}" for run in runs))


def print_summary(summary, differences, options):
    for side, result in summary.items():
        run = result["rounds"][0]
        memory = run["card_bytes"] if run["card_bytes"] is not None else run["peak_bytes"]
        line = f"{side:10} {result['tokens_per_second']:14,.0f} tokens/s, MFU {result['mfu']:6.1%}"
        line += f", memory {memory / 2**30:.2f} GiB" if memory else ""
        line += f" ({run['planned_bytes'] / 2**30:.2f} planned)" if "planned_bytes" in run else ""
        line += f"; mtf-train / {side}: {result['ours_to_this']:.2f}" if "ours_to_this" in result else ""
        print(line)
    for side, difference in differences.items():
        print(f"largest relative differences to {side}: loss {difference['loss']:.1e} (tolerance {options.loss_tolerance:g}), "
              f"norm of gradients {difference['gradient_norm']:.1e} (tolerance {options.norm_tolerance:g})")  # fmt: skip


def compare(name, options, config, features, layers, flops):
    """`flops`: model FLOPs of a token. Exits with 1 where losses or norms differ."""
    with tempfile.TemporaryDirectory() as directory:
        comparison = Comparison(options, config, features, layers, directory)
        if set(options.sides) - {OURS}:
            comparison.export_weights()
        for number in range(options.rounds):
            comparison.run_round(number)
        profile = comparison.profile() if options.profile else None
    rounds = comparison.rounds
    summary = summarize(rounds, flops, options.peak)
    differences, good = check(rounds, options)
    print_first_steps(rounds, options)
    print_summary(summary, differences, options)
    if profile:
        profile_shares.print_shares(profile)
    results = {
        "benchmark": name, "arguments": vars(options), "machine": machine.describe(options.mtf_train, options.emulator),
        "flops_per_token": flops, "sides": summary, "differences": differences, "same": good,
        "failures": comparison.failures, "profile": profile,
    }  # fmt: skip
    machine.write_json(options.json, results)
    if not good:
        raise SystemExit("the sides compute different things: the speeds are not comparable")
    if comparison.failures:
        raise SystemExit(f"failed: {', '.join(comparison.failures)}")

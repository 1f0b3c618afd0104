"""What scripts share that train models for a few steps and compare with the predictions of run.mode=explain."""

import argparse
import json


def argument_parser(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("hardware", help="the file that run.mode=calibrate has written on this machine")
    parser.add_argument("arguments", nargs="*", default=[], help="further arguments of mtf-train")
    parser.add_argument("--model", action="append", required=True, help="NAME=FILE.yaml; may be given several times")
    return parser


def run_arguments(directory, steps):
    """A run of so many steps, each of which is timed."""
    return [f"run.model_dir={directory}/run", f"train.steps={steps}", "train.epochs=null", "train.log_every=1", "checkpoint.every=0"]


def step_seconds(directory):
    """Seconds of the steps of run_arguments()."""
    with open(f"{directory}/run/metrics.jsonl") as file:
        return [json.loads(line)["step_ms"] * 1e-3 for line in file if "step_ms" in line]

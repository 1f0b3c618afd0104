"""Runs of a few steps of a model in a file, on processes of one machine, and what run.mode=explain predicts for them."""

import json
import subprocess
import tempfile

from comparisons import training_models
from harness.commands import run

MODELS = ("mlp", "lm", "encdec")
QUICK_HARDWARE = '{"device": {"flops": 1e11, "bandwidth": 2e10}, "links": [{"bandwidth": 5e9, "latency": 1e-5}]}'


def add_arguments(parser):
    parser.add_argument(
        "--hardware", help="the file that run.mode=calibrate has written on this machine; otherwise it is called first"
    )
    parser.add_argument(
        "--model",
        dest="models",
        metavar="NAME=FILE.yaml",
        action="append",
        help=f"may be given several times; otherwise {', '.join(MODELS)} of `bench.py training`",
    )
    parser.add_argument("--argument", dest="arguments", metavar="KEY=VALUE", action="append", default=[], help="of all runs")


def models(session):
    """Names and files."""
    if session.options.models:
        return [model.split("=", 1) for model in session.options.models]
    names = MODELS[:1] if session.options.quick else MODELS
    return [(name, training_models.write(session, name, f"{name}.yaml", "adam")) for name in names]


def hardware(session):
    """The argument of mtf-train; measures the machine with two processes if there is no --hardware."""
    path = session.options.hardware
    if not path:
        path = session.path("hardware.yaml")
        run(
            [
                session.program("mtf-launch"),
                "-n",
                "2",
                "--",
                session.options.mtf_train,
                "run.mode=calibrate",
                f"calibrate.output={path}",
            ],
            2,
        )
    return f"hardware={path}"


def explain(session, *arguments):
    """The document of run.mode=explain, without its tensors unless they are asked for, or None if the run is not possible."""
    command = [session.options.mtf_train, *arguments, "run.mode=explain", "explain.format=json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def run_steps(session, steps, processes, threads, *arguments):
    """Runs so many steps on processes with so many threads each; seconds of a step, a mean for each line of the log, and the
    Cost of all. There are some 20 lines: to write one takes as long as a twentieth of a step of two milliseconds."""
    every = max(1, steps // 20)
    with tempfile.TemporaryDirectory(dir=session.work) as directory:
        launch = [session.program("mtf-launch"), "-n", str(processes), "--"] if processes > 1 else []
        command = [*launch, session.options.mtf_train, *arguments, f"run.threads={threads}", f"run.model_dir={directory}/run"]
        command += [f"train.steps={steps}", "train.epochs=null", f"train.log_every={every}", "checkpoint.every=0"]
        cost = run(command, processes * threads)
        with open(f"{directory}/run/metrics.jsonl", encoding="utf-8") as file:
            return [json.loads(line)["step_ms"] * 1e-3 for line in file if "step_ms" in line], cost

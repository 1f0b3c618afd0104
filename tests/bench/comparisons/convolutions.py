"""Random convolutions by the engine, in float32, and by PyTorch, in float64: results and gradients.

convolution_cases (built by name) prints the cases: one to three dimensions of space, strides, dilations, padding of all
kinds, groups, transposed convolutions, any order of dimensions, some of them split over a mesh of several positions.
Deviations are relative to the largest entry of PyTorch's tensor. The comparison holds if none is above 1e-5 and no case is
missing. With other seeds, look at the case first: a tensor of one number or two that cancel out can come close to that by
rounding.
"""

import json
import subprocess

SUMMARY = "results and gradients of random convolutions: PyTorch"
PROGRAMS = ("convolution_cases",)
PEERS = ("torch",)
ALONE = False
QUICK = {"cases": 20}


def add_arguments(parser):
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)


def run(session):
    options = session.options
    cases = [session.program("convolution_cases"), str(options.cases), str(options.seed)]
    with subprocess.Popen(cases, stdout=subprocess.PIPE) as ours:
        command = session.peer("peers", "torch_convolutions.py")
        theirs = subprocess.run(command, stdin=ours.stdout, stdout=subprocess.PIPE, check=True)
    result = json.loads(theirs.stdout)
    table = session.table(f"{options.cases:,} cases", "", "cases", "largest deviation of y", "of dx", "of df")
    kinds = result["kinds"]
    for kind in sorted(kinds, key=lambda kind: (kind != "all", kind)):
        table.row(kind, f"{kinds[kind]['cases']:,}", *(f"{kinds[kind][name]:.1e}" for name in ("y", "dx", "df")))
    session.check(ours.returncode == 0, f"convolution_cases ended with {ours.returncode}")
    session.check(kinds["all"]["cases"] == options.cases, f"{kinds['all']['cases']:,} of {options.cases:,} cases compared")
    for case in result["deviating"]:
        session.check(False, f"deviation {case}")

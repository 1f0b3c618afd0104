#!/usr/bin/env python3
"""mtf-train beside other programs, on the CPU, in one run: each comparison prints Markdown tables, with the command, the
machine and the commit above them.

  tests/bench/bench.py COMPARISON [--threads 1,2] [--peers NAMES] [--rounds N] [--quick] ...
  tests/bench/bench.py COMPARISON --help
  tests/bench/bench.py quick [--peers none]      all comparisons at small sizes: whether they still work

Peers are installed from PyPI into MTF_BENCH_VENVS (default ~/.cache/mtf-train), see harness/environments.py; they are no part
of the build. Programs take turns, and ratios are of the same round: figures of different runs do not compare. On a machine
with other work look at CPU times with --threads 1. Exits with 1 if a comparison checks something that does not hold.
Benchmarks of GPUs are in tests/bench/gpu.
"""

import argparse
import os
import signal
import sys

from comparisons import (
    convolutions, decoding, encoders, generation, images, language_model, predictions, processes, ranks, scaling, speedups,
    tokens, training, translation, translation_training,
)  # fmt: skip
from harness.session import Session

COMPARISONS = {
    "training": training,
    "scaling": scaling,
    "decoding": decoding,
    "generation": generation,
    "processes": processes,
    "tokens": tokens,
    "translation": translation,
    "translation-training": translation_training,
    "language-model": language_model,
    "encoders": encoders,
    "images": images,
    "convolutions": convolutions,
    "predictions": predictions,
    "ranks": ranks,
    "speedups": speedups,
}


def numbers(text):
    return [int(number) for number in text.split(",")]


def make_parser(name, module):
    parser = argparse.ArgumentParser(
        prog=f"bench.py {name}", description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mtf-train", type=os.path.abspath, default="build/bin/mtf-train", help="other programs are beside it")
    parser.add_argument("--threads", type=numbers, default=[1], help="numbers of threads")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of a turn of a program that trains")
    if module.PEERS:
        parser.add_argument(
            "--peers",
            type=lambda text: text.split(","),
            default=list(module.PEERS),
            help=f"some of {','.join(module.PEERS)}, or none",
        )
    parser.add_argument("--work", help="directory that keeps files for the next call")
    parser.add_argument("--commit", help="of the program, if not of the sources that hold this script")
    parser.add_argument("--json", help="a file for all figures")
    parser.add_argument("--quick", action="store_true", help="small sizes: whether it works, not how fast it is")
    module.add_arguments(parser)
    return parser


def parse(name, arguments):
    """The options of a comparison, and what it needs and does not have, or nothing."""
    module = COMPARISONS[name]
    parser = make_parser(name, module)
    if parser.parse_args(arguments).quick:
        parser.set_defaults(**module.QUICK)
    options = parser.parse_args(arguments)
    options.peers = [] if not module.PEERS or options.peers == ["none"] else options.peers
    for peer in options.peers:
        if peer not in module.PEERS:
            parser.error(f"--peers: {peer} is not one of {', '.join(module.PEERS)}")
    paths = [os.path.join(os.path.dirname(options.mtf_train), program) for program in module.PROGRAMS]
    paths += [options.data] if "data" in options else []
    missing = [f"{path} is not there" for path in paths if not os.path.exists(path)]
    if not options.peers and not module.ALONE:
        missing.append("it only compares with others")
    return options, missing


def compare(name, arguments, options):
    """Runs a comparison; returns whether all that it checks holds."""
    session = Session(options, [name, *arguments])
    with session.opened():
        COMPARISONS[name].run(session)
        print(flush=True)
    session.write_json()
    return not session.failures


def quick(arguments):
    """Runs all comparisons at small sizes, but for those that lack something; returns whether all checks hold."""
    results = []
    for name, module in COMPARISONS.items():
        given = [*arguments, "--quick"]
        if not module.PEERS and "--peers" in given:
            at = given.index("--peers")
            del given[at : at + 2]
        options, missing = parse(name, given)
        if missing:
            print(f"{name} is left out: {missing[0]}\n", flush=True)
        else:
            results.append(compare(name, given, options))
    return all(results)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the programs that are stopped end too
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="comparison", required=True, metavar="COMPARISON")
    for name, module in COMPARISONS.items():
        commands.add_parser(name, help=module.SUMMARY, add_help=False)
    commands.add_parser("quick", help="all of them, at small sizes", add_help=False)
    options, arguments = parser.parse_known_args()
    if options.comparison == "quick":
        sys.exit(0 if quick(arguments) else 1)
    chosen, missing = parse(options.comparison, arguments)
    if missing:
        parser.error(f"{options.comparison}: {missing[0]}")
    sys.exit(0 if compare(options.comparison, arguments, chosen) else 1)


if __name__ == "__main__":
    main()

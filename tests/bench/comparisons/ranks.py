"""Whether run.mode=explain puts layouts in the order of their speed: for each model random legal layouts of one process for
each position, their predicted and measured seconds of a step, and Kendall's tau of the two orders, without pairs whose
measured times differ by less than 5 %. Figures mean nothing unless the machine has nothing else to do.
"""

import itertools
import json
import math
import random
import statistics

from comparisons import steps

SUMMARY = "predicted and measured order of layouts"
PROGRAMS = ("mtf-train", "mtf-launch")
PEERS = ()
ALONE = True
QUICK = {"hardware": steps.QUICK_HARDWARE, "layouts": 2, "rounds": 1, "steps": 4}
MESHES = ({"a": 2}, {"a": 4}, {"a": 2, "b": 2})


def add_arguments(parser):
    steps.add_arguments(parser)
    parser.add_argument("--layouts", type=int, default=20)
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--alike", type=float, default=0.05, help="measured times that differ by less have no order")


def tau(pairs, alike):
    """Kendall's tau of pairs (predicted, measured), and how many of the pairs of layouts have an order."""
    agree = differ = 0
    for (p, m), (q, n) in itertools.combinations(pairs, 2):
        if abs(m - n) <= alike * max(m, n):
            continue
        agree += (p - q) * (m - n) > 0
        differ += (p - q) * (m - n) <= 0
    return (agree - differ) / (agree + differ) if agree + differ else math.nan, agree + differ


def random_layout(draw, dimensions):
    """A mesh and rules."""
    mesh, rules = draw.choice(MESHES), {}
    for axis in mesh:
        for name in draw.sample(dimensions, draw.choice((0, 1, 1, 2))):
            rules.setdefault(name, axis)
    if "batch" in dimensions and draw.random() < 0.4:
        rules["batch"] = draw.choice(list(mesh))
    return mesh, rules


def legal_layouts(session, file, hardware):
    """Layouts with different predictions: (arguments, processes, predicted seconds)."""
    options = session.options
    explain = lambda *more: steps.explain(session, file, *options.arguments, "run.threads=1", *more)
    document = explain()
    if document is None:
        raise SystemExit(f"run.mode=explain fails with {file}")
    dimensions = sorted({dimension for tensor in document["tensors"] for dimension in tensor["dimensions"]})
    draw, found, seen = random.Random(options.seed), [], set()
    for _ in range(60 * options.layouts):
        mesh, rules = random_layout(draw, dimensions)
        processes = math.prod(mesh.values())
        arguments = [f"mesh={json.dumps(mesh)}", f"layout={json.dumps(rules)}"]
        document = explain(*arguments, hardware, f"cluster.processes={processes}", "explain.tensors=false")
        if document is None or (key := (processes, round(document["prediction"]["seconds"], 7))) in seen:
            continue
        seen.add(key)
        found.append((arguments, processes, document["prediction"]["seconds"]))
        if len(found) == options.layouts:
            break
    return found


def run(session):
    options = session.options
    results = []
    hardware = steps.hardware(session)
    for name, file in steps.models(session):
        measured = []
        for arguments, processes, predicted in legal_layouts(session, file, hardware):
            run_once = lambda: steps.run_steps(session, options.steps, processes, 1, file, *options.arguments, *arguments)[0]
            seconds = min(statistics.median(run_once()[2:]) for _ in range(options.rounds))
            measured.append((predicted, seconds, arguments))
        table = session.table(name, "layout", "predicted", "measured")
        for predicted, seconds, arguments in sorted(measured, key=lambda row: row[1]):
            table.row(" ".join(arguments), f"{predicted * 1e3:.1f} ms", f"{seconds * 1e3:.1f} ms")
        results.append((name, len(measured), *tau([row[:2] for row in measured], options.alike)))
    table = session.table("order", "model", "layouts", "Kendall's tau", "pairs")
    for name, layouts, value, pairs in results:
        table.row(name, layouts, f"{value:.2f}", pairs)

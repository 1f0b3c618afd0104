"""Where the time of a training step goes, from the profile.json of a run on one GPU:

    python tests/bench/gpu/profile_shares.py RUN/profile.json

Times by kind of operation are those of the GPU; what is left of the step is gaps: launches (profiled steps are not
recorded as CUDA graphs), and what the processor does between steps.
"""

import collections
import json
import sys

PRODUCTS = ("einsum", "fused_einsum")


def shares(path):
    """Milliseconds of a step, of its operations by kind, of its longest operations."""
    with open(path, encoding="utf-8") as file:
        spans = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
    steps = [span["dur"] for span in spans if span["cat"] == "step"]
    by_kind, by_operation = collections.Counter(), collections.Counter()
    for span in spans:
        if span["cat"] == "compute":
            by_kind[span["name"].split()[0]] += span["dur"] / len(steps) / 1000
            by_operation[span["args"]["detail"]] += span["dur"] / len(steps) / 1000
    step, computed = sum(steps) / len(steps) / 1000, sum(by_kind.values())
    products = sum(by_kind[kind] for kind in PRODUCTS)
    return {
        "step_ms": step, "gaps_ms": step - computed, "products_share": products / computed,
        "operations": sum(span["cat"] == "compute" for span in spans) // len(steps),
        "kinds_ms": dict(by_kind.most_common()), "longest_ms": dict(by_operation.most_common(60)),
    }  # fmt: skip


def print_shares(found):
    print(f"a step of {found['operations']} operations, profiled: {found['step_ms']:.2f} ms, gaps {found['gaps_ms']:.2f} ms, "
          f"products {found['products_share']:.1%} of the rest")  # fmt: skip
    for kind, milliseconds in list(found["kinds_ms"].items())[:10]:
        print(f"  {milliseconds:9.3f} ms  {kind}")
    for operation, milliseconds in list(found["longest_ms"].items())[:3]:
        print(f"  {milliseconds:9.3f} ms  {operation[:150]}")


if __name__ == "__main__":
    print_shares(shares(sys.argv[1]))

"""Reads cases of convolution_cases from standard input and computes them again in float64.

    convolution_cases CASES SEED | python torch_convolutions.py

Each is computed by conv1d, conv2d or conv3d of torch.nn.functional, a transposed one as the gradient of such a convolution,
and its gradients by autograd. Compared are y, dx and df, by the largest deviation relative to the largest entry of PyTorch's
tensor. Writes the largest deviations by kind of case, and the cases that deviate, as one object of JSON.
"""

import collections
import json
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

BOUND = 1e-5
CONVOLUTIONS = (F.conv1d, F.conv2d, F.conv3d)


class Tensor:
    """A tensor with names of its dimensions."""

    def __init__(self, values, names):
        self.values, self.names = values, list(names)

    def sizes(self, names):
        return [self.values.shape[self.names.index(name)] for name in names]

    def grouped(self, *groups):
        """The same in the order of `groups`, the names of each of which become one dimension."""
        order = [name for group in groups for name in group]
        values = self.values.permute([self.names.index(name) for name in order])
        return values.reshape([math.prod(self.sizes(group)) for group in groups]).contiguous()


def reached(w):
    """Entries from the first of the first window to the last of the last one."""
    return (w["windows"] - 1) * w["stride"] + (w["size"] - 1) * w["dilation"] + 1


def padded(x, windows):
    """The entries that the windows reach, in the last dimensions: with zeros around them, or less than all."""
    for i, w in enumerate(windows, x.dim() - len(windows)):
        before, after = w["before"], reached(w) - w["before"] - w["entries"]
        x = F.pad(x, [0, 0] * (x.dim() - 1 - i) + [max(before, 0), max(after, 0)])
        x = x.narrow(i, max(-before, 0), reached(w))
    return x


def convolve(entries, f, windows, groups, result):
    """The convolution with dimensions `result`, by PyTorch: [batch, groups * channels, space...]."""
    space, taps = [w["dimension"] for w in windows], [w["filter"] for w in windows]
    batch = [name for name in entries.names if name not in f.names + space]
    inputs = [name for name in entries.names if name in f.names and name not in groups]
    outputs = [name for name in f.names if name not in groups + inputs + taps]
    x = padded(entries.grouped(batch, groups + inputs, *([name] for name in space)), windows)
    kernel = f.grouped(groups + outputs, inputs, *([name] for name in taps))
    y = CONVOLUTIONS[len(windows) - 1](
        x,
        kernel,
        stride=[w["stride"] for w in windows],
        dilation=[w["dilation"] for w in windows],
        groups=math.prod(entries.sizes(groups)),
    )
    sizes = entries.sizes(batch) + f.sizes(groups + outputs) + [w["windows"] for w in windows]
    names = batch + groups + outputs + space
    return Tensor(y.reshape(sizes), names).grouped(*([name] for name in result))


def by_torch(case, values):
    """y, dx and df in float64."""
    names = {name: [d for d, _ in shape] for name, shape in case["shapes"].items()}
    x, f = (values[name].requires_grad_() for name in ("x", "f"))
    windows, groups = case["windows"], [d for d, _ in case["groups"]]
    if case["transposed"]:
        entries = torch.zeros_like(values["dy"], requires_grad=True)
        y = convolve(Tensor(entries, names["y"]), Tensor(f, names["f"]), windows, groups, names["x"])
        (result,) = torch.autograd.grad(y, entries, x, create_graph=True)
    else:
        result = convolve(Tensor(x, names["x"]), Tensor(f, names["f"]), windows, groups, names["y"])
    dx, df = torch.autograd.grad(result, (x, f), values["dy"])
    return {"y": result.detach(), "dx": dx, "df": df}


def deviation(ours, theirs):
    """Infinite if only one of them is zero everywhere, or a number is not finite."""
    largest, difference = float(theirs.abs().max()), float((ours - theirs).abs().max())
    if difference == 0:
        return 0.0
    return difference / largest if largest > 0 and math.isfinite(difference) else math.inf


def kinds(case):
    """The rows of the table to which a case belongs."""
    windows = case["windows"]
    yield "all"
    yield f"conv{len(windows)}d"
    yield "transposed" if case["transposed"] else "not transposed"
    if case["groups"]:
        yield "groups"
    if any(w["stride"] > 1 for w in windows):
        yield "strides"
    if any(w["dilation"] > 1 for w in windows):
        yield "dilation"
    sides = [(w["before"], reached(w) - w["before"] - w["entries"]) for w in windows]
    if all(side == (0, 0) for side in sides):
        yield "no padding"
    if any(before == after > 0 for before, after in sides):
        yield "equal padding"
    if any(before != after and max(before, after) > 0 for before, after in sides):
        yield "unequal padding"
    if any(min(side) < 0 for side in sides):
        yield "entries that no window reads"
    if case["in_tiles"]:
        yield "in tiles"
    yield "on a mesh" if case["mesh"] else "on one position"


def describe(case):
    return json.dumps({key: value for key, value in case.items() if key not in ("x", "f", "dy", "y", "dx", "df")})


def main():
    torch.set_num_threads(1)
    table = collections.defaultdict(lambda: {"cases": 0, "y": 0.0, "dx": 0.0, "df": 0.0})
    deviating = []
    for line in sys.stdin:
        case = json.loads(line)
        shapes = {**case["shapes"], "dx": case["shapes"]["x"], "df": case["shapes"]["f"], "dy": case["shapes"]["y"]}
        values = {
            name: torch.from_numpy(np.array(case[name], np.float32).astype(np.float64).reshape([size for _, size in shape]))
            for name, shape in shapes.items()
        }
        expected = by_torch(case, values)
        deviations = {name: deviation(values[name], expected[name]) for name in expected}
        for kind in kinds(case):
            row = table[kind]
            row["cases"] += 1
            for name, value in deviations.items():
                row[name] = max(row[name], value)
        if max(deviations.values()) > BOUND:
            deviating.append(f"{deviations}: {describe(case)}")
    print(json.dumps({"kinds": table, "deviating": deviating}))


main()

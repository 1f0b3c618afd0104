"""What the cost model predicts for AlexNet and ResNet-50 on 1, 2, 4 and 8 GPUs, beside the speed-ups that are published
for AlexNet (Krizhevsky, arXiv:1404.5997). Nothing is run but `run.mode=explain`; no GPU is needed.

    tests/bench/predicted_scaling.py [build/bin/mtf-train] [--links 6e9] [--positions 1,2,4,8] [--format markdown|json]

The batch is 128 images for each GPU. Three schemes split the work: the batch; the dense layers; the batch of the
convolutions and the dense layers over the same GPUs (mixed). The rates are those of the paper's GPU, NVIDIA's K20: memory of
208 GB/s, PCIe 2.0, and contractions at 1.58 TFLOP/s (its peak is 3.52), with which one GPU takes as long as the paper says.
"""

import argparse
import json
import os
import subprocess

IMAGES_OF_A_GPU = 128
DEVICE = {"flops": 1.58e12, "bandwidth": 208e9}
LATENCY = 20e-6

MIXED = "vars.dense_batch=whole_batch"
NETWORKS = {
    "AlexNet": ("alexnet", {
        "data": ["layout=batch:all"],
        "model": ["layout=fc6:all;fc7:all"],
        "mixed": ["layout=batch:all;fc6:all;fc7:all", MIXED],
    }),
    "ResNet-50": ("resnet50", {
        "data": ["layout=batch:all"],
        "model": ["layout=features:all"],
        "mixed": ["layout=batch:all;features:all", MIXED],
    }),
}
# Table 1 of the paper: hours for 90 epochs with one batch size, 98.05 on one GPU.
PUBLISHED = {("AlexNet", "mixed", 2): 98.05 / 50.24, ("AlexNet", "mixed", 4): 98.05 / 26.20,
             ("AlexNet", "mixed", 8): 98.05 / 15.68}


def explain(program, model, positions, arguments, links):
    hardware = json.dumps({"device": DEVICE, "links": [{"bandwidth": links, "latency": LATENCY}]})
    processes = [f"cluster.processes={positions}"]  # one for each GPU
    command = [program, f"configs/models/{model}.yaml", *arguments, *processes, f"mesh=all:{positions}", "run.mode=explain",
               "explain.format=json", "explain.tensors=false", f"train.batch_size={IMAGES_OF_A_GPU * positions}",
               f"hardware={hardware}"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def row(program, network, scheme, positions, links, single):
    """One line of the table; `single` is that of one GPU."""
    model, schemes = NETWORKS[network]
    document = explain(program, model, positions, schemes[scheme], links)
    predicted = document["prediction"]
    result = {"network": network, "scheme": scheme if positions > 1 else "", "gpus": positions,
              "flops": document["step"]["flops"], "bytes_sent": document["step"]["bytes_sent"],
              **{key: predicted[key] for key in ("seconds", "computing", "waiting", "sending")}}
    one = (single or result)["seconds"]
    result["speed_up"] = positions * one / predicted["seconds"]
    result["speed_up_without_overlap"] = positions * one / (predicted["computing"] + predicted["sending"])
    result["published"] = PUBLISHED.get((network, scheme, positions))
    return result


def rows(program, positions, links):
    for network, (_, schemes) in NETWORKS.items():
        single = row(program, network, next(iter(schemes)), 1, links, None)
        if 1 in positions:
            yield single
        for scheme in schemes:
            for count in positions:
                if count > 1:
                    yield row(program, network, scheme, count, links, single)


def markdown(table):
    lines = ["| network | scheme | GPUs | GFLOP of a GPU | sent by a GPU | computing | sending | waiting | step | speed-up "
             "| without overlap | published |", "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for r in table:
        times = [f"{1e3 * r[key]:.1f} ms" for key in ("computing", "sending", "waiting", "seconds")]
        published = f"{r['published']:.2f}" if r["published"] else ""
        cells = [r["network"], r["scheme"], str(r["gpus"]), f"{r['flops'] / 1e9:.0f}", f"{r['bytes_sent'] / 1e6:.1f} MB",
                 *times, f"{r['speed_up']:.2f}", f"{r['speed_up_without_overlap']:.2f}", published]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default="build/bin/mtf-train")
    parser.add_argument("--links", type=float, default=6e9, help="bytes that a GPU sends in a second")
    parser.add_argument("--positions", default="1,2,4,8", help="numbers of GPUs")
    parser.add_argument("--format", default="markdown", choices=["markdown", "json"])
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    table = list(rows(program, [int(count) for count in options.positions.split(",")], options.links))
    print(markdown(table) if options.format == "markdown" else json.dumps(table, indent=1))


if __name__ == "__main__":
    main()

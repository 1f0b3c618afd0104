"""What the cost model predicts for AlexNet and ResNet-50 on 1, 2, 4 and 8 GPUs, beside the speed-ups that are published for
AlexNet (Krizhevsky, arXiv:1404.5997). Nothing is run but run.mode=explain; no GPU is needed.

The batch is 128 images for each GPU. Three schemes split the work: the batch; the dense layers; the batch of the convolutions
and the dense layers over the same GPUs (mixed). The rates are those of the paper's GPU, NVIDIA's K20: memory of 208 GB/s,
PCIe 2.0, and contractions at 1.58 TFLOP/s (its peak is 3.52), with which one GPU takes as long as the paper says.
"""

import json

from comparisons import steps

SUMMARY = "predicted speed-ups of AlexNet and ResNet-50 on GPUs of 2012"
PROGRAMS = ("mtf-train",)
PEERS = ()
ALONE = True
QUICK = {"positions": [1, 8]}
IMAGES_OF_A_GPU = 128
DEVICE = {"flops": 1.58e12, "bandwidth": 208e9}
LATENCY = 20e-6

MIXED = "vars.dense_batch=whole_batch"
NETWORKS = {
    "AlexNet": (
        "alexnet",
        {
            "data": ["layout=batch:all"],
            "model": ["layout=fc6:all;fc7:all"],
            "mixed": ["layout=batch:all;fc6:all;fc7:all", MIXED],
        },
    ),
    "ResNet-50": (
        "resnet50",
        {
            "data": ["layout=batch:all"],
            "model": ["layout=features:all"],
            "mixed": ["layout=batch:all;features:all", MIXED],
        },
    ),
}
# Table 1 of the paper: hours for 90 epochs with one batch size, 98.05 on one GPU.
PUBLISHED = {
    ("AlexNet", "mixed", 2): 98.05 / 50.24,
    ("AlexNet", "mixed", 4): 98.05 / 26.20,
    ("AlexNet", "mixed", 8): 98.05 / 15.68,
}


def add_arguments(parser):
    parser.add_argument("--links", type=float, default=6e9, help="bytes that a GPU sends in a second")
    parser.add_argument(
        "--positions", type=lambda text: [int(count) for count in text.split(",")], default=[1, 2, 4, 8], help="numbers of GPUs"
    )


def explain(session, model, positions, arguments):
    hardware = json.dumps({"device": DEVICE, "links": [{"bandwidth": session.options.links, "latency": LATENCY}]})
    document = steps.explain(
        session, session.config(f"models/{model}.yaml"), *arguments, f"cluster.processes={positions}", f"mesh=all:{positions}",
        "explain.tensors=false", f"train.batch_size={IMAGES_OF_A_GPU * positions}", f"hardware={hardware}",
    )  # fmt: skip
    if document is None:
        raise SystemExit(f"run.mode=explain fails for {model} with {' '.join(arguments)}")
    return document


def figures(session, network, scheme, positions, single):
    """Those of one line of the table; `single` are those of one GPU."""
    model, schemes = NETWORKS[network]
    document = explain(session, model, positions, schemes[scheme])
    predicted = document["prediction"]
    result = {"network": network, "scheme": scheme if positions > 1 else "", "gpus": positions,
              "flops": document["step"]["flops"], "bytes_sent": document["step"]["bytes_sent"],
              **{key: predicted[key] for key in ("seconds", "computing", "waiting", "sending")}}  # fmt: skip
    one = (single or result)["seconds"]
    result["speed_up"] = positions * one / predicted["seconds"]
    result["speed_up_without_overlap"] = positions * one / (predicted["computing"] + predicted["sending"])
    result["published"] = PUBLISHED.get((network, scheme, positions))
    return result


def all_figures(session):
    positions = session.options.positions
    for network, (_, schemes) in NETWORKS.items():
        single = figures(session, network, next(iter(schemes)), 1, None)
        if 1 in positions:
            yield single
        for scheme in schemes:
            for count in positions:
                if count > 1:
                    yield figures(session, network, scheme, count, single)


def run(session):
    title = f"predictions, links of {session.options.links / 1e9:g} GB/s"
    table = session.table(
        title,
        "network",
        "scheme",
        "GPUs",
        "GFLOP of a GPU",
        "sent by a GPU",
        "computing",
        "sending",
        "waiting",
        "step",
        "speed-up",
        "without overlap",
        "published",
    )
    session.figures["networks"] = []
    for each in all_figures(session):
        session.figures["networks"].append(each)
        times = [f"{1e3 * each[key]:.1f} ms" for key in ("computing", "sending", "waiting", "seconds")]
        published = f"{each['published']:.2f}" if each["published"] else ""
        table.row(
            each["network"],
            each["scheme"],
            each["gpus"],
            f"{each['flops'] / 1e9:.0f}",
            f"{each['bytes_sent'] / 1e6:.1f} MB",
            *times,
            f"{each['speed_up']:.2f}",
            f"{each['speed_up_without_overlap']:.2f}",
            published,
        )

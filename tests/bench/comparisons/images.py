"""Images decoded and scaled by decode_bench (built by name), as the source `images` does it, and by Pillow, in seconds of one
core.

The images are made here: photographs are imitated by noise of many scales, at the mean size of ImageNet (500 x 375). The
comparison holds if the pixels are the same. Ratios are mtf-train / Pillow, medians of the rounds' own.
"""

import statistics
import subprocess

from harness.commands import alternate, first_cores
from harness.workers import Worker

SUMMARY = "decoding and scaling of images: Pillow"
PROGRAMS = ("decode_bench",)
PEERS = ("pillow",)
ALONE = False
QUICK = {"count": 4, "seconds": 0.3, "rounds": 1, "sizes": [64]}


def add_arguments(parser):
    parser.add_argument("--count", type=int, default=40, help="of images")
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=[224, 64])
    parser.set_defaults(seconds=5)


def decode(session, folder, size):
    """Images a second, and a hash of the pixels."""
    command = [session.program("decode_bench"), folder, str(size), str(session.options.seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, preexec_fn=first_cores(1))
    rate, _, pixels = done.stdout.split()
    return float(rate), pixels


def run(session):
    options = session.options
    table = session.table(
        f"{options.rounds} rounds of {options.seconds:g} s in turns",
        "images",
        "kB",
        "to",
        "mtf-train, images/s of a core",
        "Pillow",
        "ratio",
    )
    for kind in ("jpeg", "png"):
        folder = session.path(kind)
        with Worker("Pillow", session.peer("images", "pillow_images.py", folder, kind, options.count), 1) as pillow:
            bytes_of_image = pillow.ask(what="make")[0] / options.count
            for size in options.sizes:
                pixels = pillow.ask(what="hash", size=size)[0]
                request = {"what": "decode", "size": size, "seconds": options.seconds}
                calls = {"ours": lambda: decode(session, folder, size), "theirs": lambda: pillow.ask(**request)[0]}
                results = alternate(calls, options.rounds)
                ours = [rate for rate, _ in results["ours"]]
                ratio = statistics.median(a / b for a, b in zip(ours, results["theirs"], strict=True))
                table.row(
                    f"{kind} 500 x 375",
                    f"{bytes_of_image / 1000:.0f}",
                    f"{size} x {size}",
                    f"{statistics.median(ours):.0f}",
                    f"{statistics.median(results['theirs']):.0f}",
                    f"{ratio:.2f}",
                )
                same = all(found == pixels for _, found in results["ours"])
                session.check(same, f"{kind} to {size} x {size}: other pixels than Pillow's")

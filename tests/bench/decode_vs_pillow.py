#!/usr/bin/env python3
"""Decodes and scales the same images with decode_bench and with Pillow, by turns, in seconds of one core, and
compares the pixels.

decode_vs_pillow.py DECODE_BENCH [SECONDS [REPEATS]]     needs pillow, numpy and xxhash

The images are made here: photographs are imitated by noise of many scales, at the mean size of ImageNet (500 x 375).
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image


def picture(rng, rows, cols):
    """Noise whose amplitude falls with its frequency, as in photographs."""
    result = np.zeros((rows, cols, 3))
    for scale in (2, 4, 8, 16, 32, 64, 128):
        small = rng.normal(size=(rows // scale + 2, cols // scale + 2, 3)) * scale**0.9
        layers = [Image.fromarray(small[:, :, k].astype(np.float32)).resize((cols, rows), Image.BICUBIC) for k in range(3)]
        result += np.stack([np.asarray(layer) for layer in layers], axis=2)
    result = 128 + 50 * result / result.std()
    return Image.fromarray(np.clip(result, 0, 255).astype(np.uint8))


def make_images(folder, count, kind):
    rng = np.random.default_rng(1)
    os.makedirs(f"{folder}/class")
    for i in range(count):
        image = picture(rng, 375, 500)
        if kind == "jpeg":
            image.save(f"{folder}/class/{i:03}.jpg", quality=90)
        else:
            image.save(f"{folder}/class/{i:03}.png")


def load(path, size):
    with Image.open(path) as image:
        return image.convert("RGB").resize((size, size), Image.BILINEAR)


def pillow(folder, size, seconds):
    paths = sorted(f"{folder}/class/{name}" for name in os.listdir(f"{folder}/class"))
    images, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        for path in paths:
            load(path, size)
        images += len(paths)
    return images / (time.process_time() - start), paths


def main():
    bench = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 5
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    core = {min(os.sched_getaffinity(0))}
    os.sched_setaffinity(0, core)
    for kind in ("jpeg", "png"):
        with tempfile.TemporaryDirectory() as folder:
            make_images(folder, 40, kind)
            size = sum(os.path.getsize(f"{folder}/class/{name}") for name in os.listdir(f"{folder}/class")) / 40
            for target in (224, 64):
                ours, theirs = [], []
                for _ in range(repeats):
                    line = subprocess.run([bench, folder, str(target), str(seconds)], check=True, capture_output=True,
                                          text=True).stdout.split()
                    ours.append(float(line[0]))
                    rate, paths = pillow(folder, target, seconds)
                    theirs.append(rate)
                try:
                    import xxhash
                    pixels = b"".join(load(path, target).tobytes() for path in paths)
                    same = "same pixels" if xxhash.xxh3_128_hexdigest(pixels) == line[2] else "OTHER PIXELS"
                except ImportError:
                    same = "pixels not compared: no xxhash"
                mine, pil = statistics.median(ours), statistics.median(theirs)
                print(f"{kind} 500 x 375 ({size / 1000:.0f} kB) to {target} x {target}: {mine:.0f} images/s a core, "
                      f"Pillow {pil:.0f}: {mine / pil:.2f} times; {same}", flush=True)


if __name__ == "__main__":
    main()

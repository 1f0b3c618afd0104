"""Makes images, and decodes and scales them by Pillow.

python pillow_images.py FOLDER jpeg|png COUNT     answers requests of harness/workers.py
"""

import os
import sys
import time

import numpy as np
import xxhash
from PIL import Image
from served import serve


def picture(random, rows, cols):
    """Noise whose amplitude falls with its frequency, as in photographs."""
    result = np.zeros((rows, cols, 3))
    for scale in (2, 4, 8, 16, 32, 64, 128):
        small = random.normal(size=(rows // scale + 2, cols // scale + 2, 3)) * scale**0.9
        layers = [Image.fromarray(small[:, :, k].astype(np.float32)).resize((cols, rows), Image.BICUBIC) for k in range(3)]
        result += np.stack([np.asarray(layer) for layer in layers], axis=2)
    result = 128 + 50 * result / result.std()
    return Image.fromarray(np.clip(result, 0, 255).astype(np.uint8))


def load(path, size):
    with Image.open(path) as image:
        return image.convert("RGB").resize((size, size), Image.BILINEAR)


def main():
    folder, kind, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    paths = [f"{folder}/class/{number:03}.{'jpg' if kind == 'jpeg' else 'png'}" for number in range(count)]

    def make():
        """Returns the size of the files."""
        random = np.random.default_rng(1)
        os.makedirs(f"{folder}/class", exist_ok=True)
        for path in paths:
            picture(random, 375, 500).save(path, **({"quality": 90} if kind == "jpeg" else {}))
        return sum(map(os.path.getsize, paths))

    def pixel_hash(size):
        return xxhash.xxh3_128_hexdigest(b"".join(load(path, size).tobytes() for path in paths))

    def decode(size, seconds):
        """Images in a second of the processor."""
        images, start = 0, time.process_time()
        while time.process_time() - start < seconds:
            for path in paths:
                load(path, size)
            images += count
        return images / (time.process_time() - start)

    serve({"make": make, "hash": pixel_hash, "decode": decode})


main()

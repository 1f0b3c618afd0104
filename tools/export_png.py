#!/usr/bin/env python3
"""Writes the images of a pair of IDX files as PNG files in a folder for each class: FOLDER/CLASS/NUMBER.png.

    tools/export_png.py train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz FOLDER [CLASS...]

CLASS... are the names of the classes, in the order of the labels (default: the numbers).
"""
import gzip
import os
import struct
import sys
import zlib


def read(path):
    """The sizes and the bytes of an IDX file of unsigned bytes, plain or .gz."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        data = file.read()
    rank = data[3]
    return struct.unpack(f">{rank}I", data[4:4 + 4 * rank]), data[4 + 4 * rank:]


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(pixels, rows, cols):
    """A grey PNG file."""
    lines = b"".join(b"\0" + pixels[row * cols:(row + 1) * cols] for row in range(rows))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", cols, rows, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    images, labels, folder, names = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    (count, rows, cols), pixels = read(images)
    _, classes = read(labels)
    width = len(str(count - 1))
    for i in range(count):
        name = names[classes[i]] if names else str(classes[i])
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        with open(os.path.join(folder, name, f"{i:0{width}}.png"), "wb") as file:
            file.write(png(pixels[i * rows * cols:(i + 1) * rows * cols], rows, cols))
    print(f"{count} images in {folder}")


if __name__ == "__main__":
    main()

"""Files of tensors as mtf-train reads and writes them, without packages beside PyTorch."""

import json
import struct

TYPES = {"F32": "float32", "I32": "int32"}


def write_ids(path, tensors):
    """`tensors`: (array of int32, shape) by name."""
    header, at = {}, 0
    for name, (values, shape) in tensors.items():
        size = 4 * len(values)
        header[name] = {"dtype": "I32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values, _ in tensors.values():
            values.tofile(file)


def read(path):
    """Tensors of PyTorch by name."""
    import torch

    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    result = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = torch.frombuffer(memoryview(data)[begin:end], dtype=getattr(torch, TYPES[entry["dtype"]]))
        result[name] = values.reshape(entry["shape"])
    return result

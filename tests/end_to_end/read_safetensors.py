"""read_safetensors.py FILE...: the package safetensors reads each file, and finds the numbers that its header and bytes say."""
import json
import struct
import sys

import numpy as np
from safetensors.numpy import load_file

for path in sys.argv[1:]:
    tensors = load_file(path)
    assert tensors, f"{path}: no tensors"
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    assert tensors.keys() == header.keys(), path
    for name, tensor in tensors.items():
        begin, end = header[name]["data_offsets"]
        assert list(tensor.shape) == header[name]["shape"], f"{path}: {name}"
        assert tensor.tobytes() == data[8 + length + begin : 8 + length + end], f"{path}: {name}"
        assert tensor.dtype.kind in "iub" or np.isfinite(tensor).all(), f"{path}: {name}"
    print(f"{path}: {len(tensors)} tensors")

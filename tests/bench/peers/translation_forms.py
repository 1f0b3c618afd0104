"""Writes a translation model that mtf-train has trained for Marian and CTranslate2 too.

    python translation_forms.py TRAINED.safetensors TEMPLATE.npz PIECES.vocab EVENED.safetensors MARIAN.npz CTRANSLATE2

What differs between the programs is evened out: Marian feeds the decoder zeros first, mtf-train the embedding of padding,
which is set to zero; mtf-train's queries are learned with their factor 1/sqrt(d_kv), Marian's are divided by it; biases of
matrix products, which mtf-train lacks, are zero. EVENED is mtf-train's model with these changes; TEMPLATE is a model of
Marian.
"""

import json
import os
import sys

import numpy as np
from ctranslate2.converters.marian import MarianConverter
from safetensors import safe_open
from safetensors.numpy import save_file

SIZE, HEAD = 128, 32
LAYERS = {
    "encoder": [("SelfAttention", "self"), ("DenseReluDense", "ffn")],
    "decoder": [("SelfAttention", "self"), ("EncDecAttention", "context"), ("DenseReluDense", "ffn")],
}


def marian_weights(ours):
    """Marian's names and values of the weights of ours; biases of matrices, which we lack, are left out."""
    result = {"Wemb": ours["shared/embedding"]}
    for stack, kinds in LAYERS.items():
        for block in range(2):
            for number, (kind, name) in enumerate(kinds):
                scope = f"{stack}/block_{block:03}/layer_{number:03}"
                prefix = f"{stack}_l{block + 1}_{name}"
                norm = f"{prefix}_{'ffn' if name == 'ffn' else 'Wo'}_ln"
                for part in ("scale", "bias"):
                    result[f"{norm}_{part}"] = ours[f"{scope}/layer_norm/layer_norm_{part}"]
                if name == "ffn":
                    result[f"{prefix}_W1"] = ours[f"{scope}/{kind}/wi/kernel"]
                    result[f"{prefix}_W2"] = ours[f"{scope}/{kind}/wo/kernel"]
                else:
                    for matrix in "qkvo":
                        factor = HEAD**0.5 if matrix == "q" else 1
                        result[f"{prefix}_W{matrix}"] = ours[f"{scope}/{kind}/{matrix}"] * np.float32(factor)
    return result


def positions(rows=1024):
    """mtf-train's and Marian's sinusoids: wavelengths from 2 pi to 2 pi 10000, both included."""
    half = SIZE // 2
    angles = np.arange(rows)[:, None] * np.exp(np.arange(half) * (-np.log(1e4) / (half - 1)))
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


def write_ours(trained, path):
    """Returns the weights."""
    with safe_open(trained, "np") as file:
        weights = {name: file.get_tensor(name) for name in file.keys()}
        metadata = file.metadata()
    weights["shared/embedding"] = weights["shared/embedding"].copy()
    weights["shared/embedding"][0] = 0
    save_file(weights, path, metadata)
    return weights


def write_marian(weights, template, path):
    values = dict(np.load(template))
    replaced = marian_weights(weights)
    for name, value in values.items():
        if name in replaced:
            values[name] = replaced.pop(name).reshape(value.shape)
        elif name != "special:model.yml":
            assert "_b" in name, name
            values[name] = np.zeros_like(value)
    assert not replaced, list(replaced)
    np.savez(path, **values)


def write_ctranslate2(marian, vocabulary, directory):
    """By CTranslate2's converter of Marian models, with the sinusoids that Marian uses."""
    values = dict(np.load(marian))
    with_positions, pieces = f"{directory}.npz", f"{directory}.pieces.yml"
    text = values["special:model.yml"].tobytes().rstrip(b"\0") + b"\0"  # the converter expects one
    values["special:model.yml"] = np.frombuffer(text, np.int8)
    np.savez(with_positions, Wpos=positions(), **values)
    with open(vocabulary, encoding="utf-8") as file:
        names = [line.rstrip("\n").split("\t")[0] for line in file]
    with open(pieces, "w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(name, ensure_ascii=False)}: {number}\n" for number, name in enumerate(names))
    MarianConverter(with_positions, [pieces, pieces]).convert(directory, quantization="float32", force=True)
    os.remove(with_positions)


def main():
    trained, template, vocabulary, evened, marian, ctranslate2 = sys.argv[1:]
    write_marian(write_ours(trained, evened), template, marian)
    write_ctranslate2(marian, vocabulary, ctranslate2)


main()

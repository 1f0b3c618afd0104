"""One model for all decoders: trained by mtf-train, its weights written for Marian and CTranslate2 too.

What differs between the programs is evened out: Marian feeds the decoder zeros first, mtf-train the embedding
of padding, which is set to zero; mtf-train's queries are learned with their factor 1/sqrt(d_kv), Marian's are
divided by it; biases of matrix products, which mtf-train lacks, are zero.
"""

import json
import os
import shutil
import subprocess

import numpy as np
from ctranslate2.converters.marian import MarianConverter
from safetensors import safe_open
from safetensors.numpy import save_file

from training import one_thread_libraries, write_marian_config, write_our_config

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


def train(corpus, work, mtf_train, threads, seconds):
    """As in the comparison of training, but with smaller batches and no dropout: little time gets farther."""
    config, run = os.path.join(work, "model.yaml"), os.path.join(work, "model_run")
    shutil.rmtree(run, ignore_errors=True)
    write_our_config(corpus, config, tokens=1024, dropout=0)
    command = [mtf_train, config, f"run.model_dir={run}", f"run.threads={threads}", f"train.time={seconds}s"]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return run


def write_ours(run, work, mtf_convert, directory):
    """The trained model with padding's embedding zero, as a model directory of mtf-train; its weights."""
    first, second = os.path.join(work, "trained.safetensors"), os.path.join(work, "model.safetensors")
    subprocess.run([mtf_convert, run, first, "--force"], check=True, stdout=subprocess.DEVNULL)
    with safe_open(first, "np") as file:
        weights = {name: file.get_tensor(name) for name in file.keys()}
        metadata = file.metadata()
    weights["shared/embedding"] = weights["shared/embedding"].copy()
    weights["shared/embedding"][0] = 0
    save_file(weights, second, metadata)
    subprocess.run(
        [mtf_convert, second, directory, "--to", "model", "--force"], check=True, stdout=subprocess.DEVNULL
    )
    return weights


def write_marian(weights, corpus, vocabulary, work, pymarian, path):
    """One update by Marian makes a file with its names, shapes and options; then the values are replaced."""
    template, config = os.path.join(work, "template.npz"), os.path.join(work, "template.yaml")
    if os.path.exists(template):
        os.remove(template)
    write_marian_config(corpus, vocabulary, config, template, tokens=256)
    subprocess.run(
        [pymarian, "train", "-c", config, "--cpu-threads", "1", "--after", "1u", "--quiet", "--no-reload"],
        check=True,
        env=one_thread_libraries(),
    )
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


def write_ctranslate2(marian, vocabulary, work, directory):
    """By CTranslate2's converter of Marian models, with the sinusoids that Marian uses."""
    values = dict(np.load(marian))
    with_positions, pieces = os.path.join(work, "with_positions.npz"), os.path.join(work, "pieces.yml")
    text = values["special:model.yml"].tobytes().rstrip(b"\0") + b"\0"  # the converter expects one
    values["special:model.yml"] = np.frombuffer(text, np.int8)
    np.savez(with_positions, Wpos=positions(), **values)
    with open(vocabulary.path.removesuffix(".model") + ".vocab", encoding="utf-8") as file:
        names = [line.rstrip("\n").split("\t")[0] for line in file]
    with open(pieces, "w", encoding="utf-8") as file:
        file.writelines(
            f"{json.dumps(name, ensure_ascii=False)}: {number}\n" for number, name in enumerate(names)
        )
    MarianConverter(with_positions, [pieces, pieces]).convert(directory, quantization="float32", force=True)


def make(corpus, vocabulary, work, programs, threads, seconds):
    """Directories and files of the three forms: mtf-train's, Marian's, CTranslate2's."""
    forms = [os.path.join(work, name) for name in ("decode_ours", "decode_marian.npz", "decode_ctranslate2")]
    if not all(map(os.path.exists, forms)):
        print(f"training the model that is decoded with, {seconds} s", flush=True)
        run = train(corpus, work, programs.mtf_train, threads, seconds)
        weights = write_ours(run, work, programs.mtf_convert, forms[0])
        write_marian(weights, corpus, vocabulary, work, programs.pymarian, forms[1])
        write_ctranslate2(forms[1], vocabulary, work, forms[2])
    return forms

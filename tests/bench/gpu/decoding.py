"""Decoding by mtf-train on one GPU: texts by the base encoder and decoder (initial weights, beam 4 and greedy), one at a
time and 64 at once: target tokens per second, from text to text, of 32 batches, less those and the time of 8: what a run
takes to start, and to prepare its programs, does not count.

    python tests/bench/gpu/decoding.py build/bin/mtf-train [--batches 32] [--rounds 3] [--json FILE]
    python tests/bench/gpu/decoding.py build/bin/mtf-train --emulator --tiny        tries it without a GPU

Weights that have learned nothing end no text early, so that all have the greatest length: what is timed depends on
sizes alone. Ids of the texts are counted by mtf-train (infer.format: jsonl).
"""

import argparse
import json
import os
import statistics
import tempfile
import time

import corpus
import machine

SIZES = {"batches": 32, "rounds": 3, "layers": 6, "d_model": 512, "heads": 8, "length": 64, "vocabulary": 32768}
TINY = {"batches": 4, "rounds": 1, "layers": 1, "d_model": 32, "heads": 2, "length": 8, "vocabulary": 128}
BEAMS = (1, 4)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mtf_train", metavar="build/bin/mtf-train")
    for name in SIZES:
        parser.add_argument("--" + name.replace("_", "-"), type=int, help=f"default {SIZES[name]}, tiny {TINY[name]}")
    parser.add_argument("--tiny", action="store_true", help="sizes that show whether it works, not how fast it is")
    parser.add_argument("--precision", choices=["bfloat16", "float32"], default="bfloat16", help="of activations")
    machine.add_arguments(parser)
    options = parser.parse_args()
    for name, value in (TINY if options.tiny else SIZES).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    options.mtf_train = os.path.abspath(options.mtf_train)
    return options


def batch_sizes(options):
    return (1, 4) if options.tiny else (1, 64)


def prepare(options, directory, environment):
    """Lines to decode, in files that are named by their number, and a run of one step with a rate of 0."""
    corpus.write_vocabulary(f"{directory}/words.subwords", options.vocabulary)
    numbers = {size * batches for size in batch_sizes(options) for batches in (options.batches, options.batches // 4)}
    ids = corpus.make_ids(max(numbers), options.length, options.vocabulary, 0)
    for lines in numbers:
        corpus.write_text(f"{directory}/{lines}", ids[: lines * options.length], options.length)
    heads = {"num_heads": options.heads, "key_value_size": options.d_model // options.heads}
    config = {
        "data": {
            "train": {"type": "parallel", "inputs": str(min(numbers)), "targets": str(min(numbers))},
            "vocabulary": {"type": "t2t", "path": "words.subwords"},
            "sequence_length": options.length,
            "cache": "cache",
        },
        "model": {
            "type": "bitransformer", "d_model": options.d_model, "max_length": 2 * options.length,
            "encoder": {"num_layers": options.layers, "block": ["SelfAttention", "DenseReluDense"]},
            "decoder": {"num_layers": options.layers, "block": ["SelfAttention", "EncDecAttention", "DenseReluDense"]},
            "layer_defaults": {
                "SelfAttention": heads, "EncDecAttention": heads, "DenseReluDense": {"hidden_size": 4 * options.d_model},
            },
        },
        "optimizer": "sgd", "learning_rate": 0, "train": {"steps": 1, "batch_size": 1}, "devices": "cuda",
        "precision": {"activation": options.precision}, "infer": {"format": "jsonl", "max_length": options.length},
    }  # fmt: skip
    with open(f"{directory}/decoding.yaml", "w", encoding="utf-8") as file:
        json.dump(config, file)
    command = [options.mtf_train, "decoding.yaml", "run.model_dir=model"]
    machine.run(command, cwd=directory, env=environment)


def decode(options, directory, environment, batches, beam, batch):
    """Seconds, and the tokens of the texts."""
    lines = batches * batch
    command = [options.mtf_train, "model/config.yaml", "run.mode=infer", f"infer.input={lines}", "infer.output=texts"]
    command += ["infer.method=greedy"] if beam == 1 else ["infer.method=beam", f"infer.beam_size={beam}"]
    begin = time.monotonic()
    machine.run([*command, f"infer.batch_size={batch}"], cwd=directory, env=environment)
    seconds = time.monotonic() - begin
    with open(f"{directory}/texts", encoding="utf-8") as file:
        return seconds, sum(len(json.loads(line)["pieces"]) for line in file)


def main():
    options = parse()
    environment = machine.environment(options.mtf_train, options.emulator)
    results = []
    with tempfile.TemporaryDirectory() as directory:
        prepare(options, directory, environment)
        rates = {(beam, batch): [] for beam in BEAMS for batch in batch_sizes(options)}
        for _ in range(options.rounds):
            for case, found in rates.items():
                start, few = decode(options, directory, environment, options.batches // 4, *case)
                seconds, tokens = decode(options, directory, environment, options.batches, *case)
                found.append((tokens - few) / max(seconds - start, 1e-9))
    for (beam, batch), found in rates.items():
        speed = statistics.median(found)
        results.append({"beam": beam, "batch": batch, "tokens_per_second": speed, "rounds": found})
        print(f"beam {beam}, batch {batch:2}: {speed:12,.0f} tokens/s", flush=True)
    description = machine.describe(options.mtf_train, options.emulator)
    machine.write_json(options.json, {"benchmark": "decoding", "arguments": vars(options), "machine": description,
                                      "results": results})  # fmt: skip


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Decoding by mtf-train and by CTranslate2, in turns: a translation model of random weights, float32, on the CPU.

  decoding_vs_ctranslate2.py [--threads 1] [--batches 1 8 32] [--beams 1 4] [--rounds 3] [--mtf-train build/bin/mtf-train]

Both have 3 + 3 layers, d_model 256, d_ff 1024, 8 heads, a vocabulary of 8192, inputs of 32 tokens, and write 64 tokens
for each text: texts of random weights do not end by themselves, and scores that favour long texts keep a beam going. Rates
are tokens of the best hypothesis in a second of wall time and of CPU time; start-up is not counted (mtf-train: the
difference between a long run and a short one). The last column is the ratio of tokens per CPU second, the median of the
rounds. Needs ctranslate2, torch and transformers from PyPI.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

LAYERS, WIDTH, HIDDEN, HEADS, VOCABULARY, INPUT, OUTPUT = 3, 256, 1024, 8, 8192, 32, 64

CONFIG = f"""
data:
  train: {{type: parallel, inputs: in.txt, targets: in.txt}}
  vocabulary: {{type: bytes}}
  sequence_length: {OUTPUT}
  packing: none
model:
  type: bitransformer
  encoder: {{num_layers: {LAYERS}, block: [SelfAttention, DenseReluDense]}}
  decoder: {{num_layers: {LAYERS}, block: [SelfAttention, EncDecAttention, DenseReluDense]}}
  d_model: {WIDTH}
  max_length: {OUTPUT}
  positions: learned
  vocab_divisor: {VOCABULARY}
  layer_defaults:
    SelfAttention: {{num_heads: {HEADS}, key_value_size: {WIDTH // HEADS}}}
    EncDecAttention: {{num_heads: {HEADS}, key_value_size: {WIDTH // HEADS}}}
    DenseReluDense: {{hidden_size: {HIDDEN}}}
optimizer: adam
learning_rate: 0.0001
train: {{steps: 1, batch_size: 8}}
"""


class Ours:
    name = "mtf-train"

    def __init__(self, program, threads, work):
        self.program, self.threads, self.work = os.path.abspath(program), threads, work
        with open(os.path.join(work, "model.yaml"), "w", encoding="utf-8") as file:
            file.write(CONFIG)
        self.write_lines("in.txt", 64)
        self.run(["model.yaml", "run.model_dir=run"])

    def write_lines(self, name, lines):
        generator = random.Random(1)
        with open(os.path.join(self.work, name), "w", encoding="utf-8") as file:
            for _ in range(lines):
                file.write("".join(generator.choice("abcdefghijklmnop") for _ in range(INPUT - 1)) + "\n")

    def run(self, arguments):
        begin = time.monotonic()
        process = subprocess.Popen(
            [self.program, *arguments, f"run.threads={self.threads}"],
            cwd=self.work,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            sys.exit(errors.decode())
        return time.monotonic() - begin, usage.ru_utime + usage.ru_stime

    def seconds(self, beam, batch, repeats):
        """Wall and CPU seconds for `repeats` batches."""
        times = []
        for count in (1 + repeats, 1):
            self.write_lines("texts.txt", count * batch)
            method = ["infer.method=greedy"] if beam == 1 else ["infer.method=beam", f"infer.beam_size={beam}"]
            times.append(
                self.run(
                    ["run/config.yaml", "run.mode=infer", "infer.input=texts.txt", "infer.output=out.txt"]
                    + [*method, "infer.length_penalty=5", f"infer.batch_size={batch}", f"infer.max_length={OUTPUT}"]
                )
            )
        return tuple(more - less for more, less in zip(*times))


class CTranslate2:
    name = "CTranslate2"

    def __init__(self, threads, work):
        os.environ.update(OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY="PASSIVE", HF_HUB_OFFLINE="1")
        import ctranslate2
        import torch
        from ctranslate2.converters import transformers as converters
        from transformers import MarianConfig, MarianMTModel

        torch.manual_seed(0)
        config = MarianConfig(
            vocab_size=VOCABULARY,
            decoder_vocab_size=VOCABULARY,
            d_model=WIDTH,
            encoder_layers=LAYERS,
            decoder_layers=LAYERS,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            encoder_ffn_dim=HIDDEN,
            decoder_ffn_dim=HIDDEN,
            max_position_embeddings=256,
            activation_function="relu",
            pad_token_id=VOCABULARY - 1,
            eos_token_id=0,
            decoder_start_token_id=VOCABULARY - 1,
            scale_embedding=True,
            static_position_embeddings=True,
            tie_word_embeddings=True,
            normalize_before=False,
            normalize_embedding=False,
        )
        self.pieces = ["</s>", *(f"t{i}" for i in range(1, VOCABULARY - 1)), "<pad>"]

        class Loader(type(converters._MODEL_LOADERS["MarianConfig"])):
            def get_vocabulary(_, model, tokenizer):
                return list(self.pieces)

        spec = converters.BartLoader.get_model_spec(Loader(), MarianMTModel(config).eval())
        spec.register_source_vocabulary(self.pieces)
        spec.register_target_vocabulary(self.pieces)
        spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "<pad>", "</s>", "t1"
        spec.config.decoder_start_token = "<pad>"
        spec.validate()
        spec.optimize(quantization="float32")
        directory = os.path.join(work, "ctranslate2")
        os.makedirs(directory)
        spec.save(directory)
        self.translator = ctranslate2.Translator(
            directory, device="cpu", compute_type="float32", inter_threads=1, intra_threads=threads
        )

    def seconds(self, beam, batch, repeats):
        generator = random.Random(1)
        texts = [[generator.choice(self.pieces[1:-1]) for _ in range(INPUT - 1)] + ["</s>"] for _ in range(batch)]
        begin, cpu = time.monotonic(), time.process_time()
        for _ in range(repeats):
            self.translator.translate_batch(
                texts,
                beam_size=beam,
                min_decoding_length=OUTPUT,
                max_decoding_length=OUTPUT,
                max_batch_size=0,
            )
        return time.monotonic() - begin, time.process_time() - cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mtf-train", default="build/bin/mtf-train")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        programs = [Ours(options.mtf_train, options.threads, work), CTranslate2(options.threads, work)]
        for beam in options.beams:
            for batch in options.batches:
                repeats = max(4, 512 // batch // beam)
                times = {program.name: [] for program in programs}
                for program in programs:
                    program.seconds(beam, batch, 1)
                for _ in range(options.rounds):
                    for program in programs:
                        times[program.name].append(program.seconds(beam, batch, repeats))
                tokens = repeats * batch * OUTPUT
                text = f"beam {beam} batch {batch:3}"
                for name, rounds in times.items():
                    wall, cpu = (tokens / statistics.median(round[i] for round in rounds) for i in (0, 1))
                    text += f"   {name} {wall:6.0f} tokens/s, {cpu:6.0f} per CPU second"
                ratios = [theirs[1] / mine[1] for mine, theirs in zip(*times.values())]
                print(f"{text}   ratio {statistics.median(ratios):.2f}", flush=True)


main()

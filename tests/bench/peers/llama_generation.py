"""Greedy texts by a model of GPT-2's form with random weights in llama.cpp.

    python llama_generation.py FILE KIND THREADS LAYERS WIDTH HIDDEN HEADS VOCABULARY     answers requests of harness/workers.py

FILE (GGUF) is written first; KIND is the type of its matrices: f32, f16 or q8_0.
"""

import sys

import gguf
import llama_cpp
import numpy as np
from served import serve

TYPES = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
}
CONTEXT = 1024


def write_model(path, kind, layers, width, hidden, heads, vocabulary):
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_block_count(layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_layer_norm_eps(1e-5)
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(vocabulary)

    def matrix(name, rows, columns):
        values = random.standard_normal((rows, columns), np.float32) * 0.02
        writer.add_tensor(name, gguf.quants.quantize(values, TYPES[kind]), raw_dtype=TYPES[kind])

    def vector(name, size, value):
        writer.add_tensor(name, np.full(size, value, np.float32))

    def norm(name):
        vector(f"{name}.weight", width, 1)
        vector(f"{name}.bias", width, 0)

    matrix("token_embd.weight", vocabulary, width)
    writer.add_tensor("position_embd.weight", random.standard_normal((CONTEXT, width), np.float32) * 0.02)
    norm("output_norm")
    for layer in range(layers):
        norm(f"blk.{layer}.attn_norm")
        norm(f"blk.{layer}.ffn_norm")
        sizes = {
            "attn_qkv": (3 * width, width),
            "attn_output": (width, width),
            "ffn_up": (hidden, width),
            "ffn_down": (width, hidden),
        }
        for name, (rows, columns) in sizes.items():
            matrix(f"blk.{layer}.{name}.weight", rows, columns)
            vector(f"blk.{layer}.{name}.bias", rows, 0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def do_without_amx():
    """llama.cpp crashes where it packs q8_0 for AMX."""
    library = llama_cpp.llama_cpp
    usual = library.llama_model_default_params

    def parameters():
        without = usual()
        without.use_extra_bufts = False
        return without

    library.llama_model_default_params = parameters


def main():
    path, kind, *sizes = sys.argv[1:]
    threads, *sizes = map(int, sizes)
    write_model(path, kind, *sizes)
    with open("/proc/cpuinfo", encoding="utf-8") as processors:
        if "amx_tile" in processors.read():
            do_without_amx()
    model = llama_cpp.Llama(path, n_ctx=CONTEXT, n_threads=threads, n_threads_batch=threads, verbose=False)

    def generate(prompt, length):
        model.reset()
        tokens = model.generate(list(range(2, 2 + prompt)), temp=0, repeat_penalty=1)
        for _, _ in zip(range(length), tokens):
            pass

    serve({"generate": generate})


main()

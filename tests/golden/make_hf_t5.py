#!/usr/bin/env python3
"""Makes a tiny random T5, and what `transformers` computes with it: make_hf_t5.py v1_0|v1_1 DIRECTORY

The directory gets config.json and model.safetensors (save_pretrained) and reference.safetensors:
  input/inputs, input/targets   four pairs of token ids, padded with 0; the longest reach over the relative distance 128
  output/logits                 float32 logits of each target that is no padding, [173, 96]
  greedy/inputs                 100 sentences, padded with 0
  greedy/targets                what greedy search makes of them in at most 24 tokens, padded with 0
"""
import json
import os
import sys

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

version, directory = sys.argv[1:]
gated = version == "v1_1"
torch.manual_seed(11 if gated else 10)
config = transformers.T5Config(
    vocab_size=96, d_model=16, d_kv=6, d_ff=24, num_layers=3, num_decoder_layers=2, num_heads=3, dropout_rate=0.1,
    relative_attention_num_buckets=32, relative_attention_max_distance=128, layer_norm_epsilon=1e-6,
    feed_forward_proj="gated-gelu" if gated else "relu", tie_word_embeddings=not gated,
    pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
model = transformers.T5ForConditionalGeneration(config)
if gated:
    model.lm_head.weight = torch.nn.Parameter(torch.empty(96, 16))


def deviation(name):
    """Large enough that every weight matters and the decoded texts differ."""
    if name == "decoder.final_layer_norm.weight":
        return 1.0
    if "layer_norm" in name:
        return 0.3
    if "shared" in name:
        return 1.0 if gated else 0.5
    return 0.3 if gated else 0.4


with torch.no_grad():
    for name, weight in model.named_parameters():
        weight.copy_(deviation(name) * torch.randn_like(weight))
        if "layer_norm" in name and name != "decoder.final_layer_norm.weight":
            weight += 1
    (model.lm_head if gated else model.shared).weight[1] *= 1.2  # so that texts end
model.save_pretrained(directory)
if gated:  # as the published files of v1.1 say it
    path = os.path.join(directory, "config.json")
    with open(path) as file:
        written = json.load(file)
    written["tie_word_embeddings"] = False
    with open(path, "w") as file:
        json.dump(written, file, indent=2)
model = transformers.T5ForConditionalGeneration.from_pretrained(directory).eval()
assert (model.lm_head.weight is model.shared.weight) != gated

random = np.random.default_rng(5)


def sentences(lengths, width):
    rows = np.zeros((len(lengths), width), np.int32)
    for row, length in zip(rows, lengths):
        row[:length] = random.integers(3, 96, length)
        row[length - 1] = 1
    return rows


def tensor(ids):
    return torch.tensor(ids.astype(np.int64))


inputs, targets = sentences([150, 40, 7, 1], 150), sentences([140, 21, 9, 3], 140)
before = np.concatenate([np.zeros((4, 1), np.int32), targets[:, :-1]], 1)
sources = sentences(random.integers(2, 13, 100), 12)
with torch.no_grad():
    logits = model(input_ids=tensor(inputs), attention_mask=tensor(inputs != 0),
                   decoder_input_ids=tensor(before)).logits.numpy()
    decoded = model.generate(input_ids=tensor(sources), attention_mask=tensor(sources != 0), do_sample=False,
                             num_beams=1, max_new_tokens=24).numpy()[:, 1:]
greedy = np.zeros((100, 24), np.int32)
greedy[:, :decoded.shape[1]] = decoded
save_file({"input/inputs": inputs, "input/targets": targets, "output/logits": logits[targets != 0],
           "greedy/inputs": sources, "greedy/targets": greedy}, os.path.join(directory, "reference.safetensors"),
          {"made_with": f"transformers {transformers.__version__}, torch {torch.__version__}"})
print(f"{len({tuple(row) for row in greedy.tolist()})} different texts, {(greedy == 1).any(1).sum()} of them end; "
      f"logits up to {abs(logits).max():.2f}")

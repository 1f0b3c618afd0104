#!/usr/bin/env python3
"""Makes a tiny random BERT, and what `transformers` computes with it: make_hf_bert.py DIRECTORY

The directory gets config.json, model.safetensors (save_pretrained), vocab.txt, tokenizer_config.json and
reference.safetensors:
  input/inputs, input/inputs_type, input/inputs_segmentation    four rows of one or two texts, padded with 0
  input/targets_place           the indices 0 to 38 of each row
  input/targets                 tokens at these places, 0 where the row has padding
  input/next_sentence           zeros
  output/logits                 float32 logits at these places, [4, 39, 96]
  output/hidden                 float32 vectors after the last layer, [4, 40, 24]
  output/next_sentence          float32 logits of the pairs, [4, 2]
"""
import os
import sys

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

directory, = sys.argv[1:]
torch.manual_seed(12)
config = transformers.BertConfig(
    vocab_size=96, hidden_size=24, num_hidden_layers=3, num_attention_heads=3, intermediate_size=40, hidden_act="gelu",
    max_position_embeddings=48, type_vocab_size=2, layer_norm_eps=1e-12, initializer_range=0.02)
model = transformers.BertForPreTraining(config)
with torch.no_grad():
    for name, weight in model.named_parameters():  # large enough that every weight matters
        weight.copy_((0.2 if "LayerNorm" in name or "bias" in name else 0.3) * torch.randn_like(weight))
        if name.endswith("LayerNorm.weight"):
            weight += 1
model.save_pretrained(directory)
model = transformers.BertForPreTraining.from_pretrained(directory, attn_implementation="eager").eval()

letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + letters + ["##" + c for c in letters] + list(".,!?-'0123456789")
pieces += [a + b for a in "stn" for b in "aeiou"] + "the and ##ing ##ed of to is was".split()
assert len(pieces) == 96
with open(os.path.join(directory, "vocab.txt"), "w") as file:
    file.writelines(piece + "\n" for piece in pieces)
with open(os.path.join(directory, "tokenizer_config.json"), "w") as file:
    file.write('{"tokenizer_class": "BertTokenizer", "do_lower_case": true}\n')

random = np.random.default_rng(6)
ids, kinds, real = (np.zeros((4, 40), np.int32) for _ in range(3))
for row, (first, second) in enumerate([(20, 20), (30, 0), (5, 9), (2, 1)]):
    ids[row, :first + second] = random.integers(5, 96, first + second)
    kinds[row, first:first + second] = 1
    real[row, :first + second] = 1


def tensor(values):
    return torch.tensor(values.astype(np.int64))


with torch.no_grad():
    made = model(input_ids=tensor(ids), token_type_ids=tensor(kinds), attention_mask=tensor(real), output_hidden_states=True)
places = np.tile(np.arange(39, dtype=np.int32), (4, 1))
save_file({"input/inputs": ids, "input/inputs_type": kinds, "input/inputs_segmentation": real, "input/targets_place": places,
           "input/targets": ids[:, :39].copy(), "input/next_sentence": np.zeros(4, np.int32),
           "output/logits": made.prediction_logits.numpy()[:, :39].copy(),
           "output/hidden": made.hidden_states[-1].numpy(), "output/next_sentence": made.seq_relationship_logits.numpy()},
          os.path.join(directory, "reference.safetensors"),
          {"made_with": f"transformers {transformers.__version__}, torch {torch.__version__}"})
print(f"logits up to {made.prediction_logits.abs().max():.2f}, vectors up to {made.hidden_states[-1].abs().max():.2f}")

#!/usr/bin/env python3
"""Makes a tiny random Marian with its tokeniser, and what `transformers` computes with them: make_hf_marian.py DIRECTORY

The directory gets the model (save_pretrained), source.spm, target.spm, vocab.json, tokenizer_config.json, and
  reference.safetensors         input/inputs, input/targets: four pairs of ids of mtf-train, padded with 0; output/logits of the
                                targets in the order of these ids, without that of padding
  inputs.txt, outputs.txt       20 texts, and what greedy search makes of them in at most 12 tokens, no two of which come twice
  tokens.txt                    the pieces of each text of inputs.txt, and those that the target's side finds, as tokens
"""
import json
import os
import random
import sys

import numpy as np
import sentencepiece
import torch
import transformers
from safetensors.numpy import save_file

directory = sys.argv[1]
torch.manual_seed(8)
words = random.Random(8)
syllables = {"source": "an the ing er on st out re to in".split(), "target": "ein der ung er an st aus ge zu ß".split()}
pieces = []
for side, parts in syllables.items():
    lines = [" ".join("".join(words.choices(parts, k=words.randint(1, 4))) for _ in range(8)) for _ in range(400)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=f"{directory}/{side}.spm", vocab_size=40, normalization_rule_name="identity",
        minloglevel=2)
    os.rename(f"{directory}/{side}.spm.model", f"{directory}/{side}.spm")
    os.remove(f"{directory}/{side}.spm.vocab")
    model = sentencepiece.SentencePieceProcessor(model_file=f"{directory}/{side}.spm")
    pieces += [model.id_to_piece(i) for i in range(3, model.piece_size())]
words.shuffle(pieces)
vocabulary = {token: i for i, token in enumerate(["</s>", "<unk>", *dict.fromkeys(pieces + list("qx")), ">>deu<<"])}
vocabulary["<pad>"] = len(vocabulary)
with open(f"{directory}/vocab.json", "w") as file:
    json.dump(vocabulary, file, indent=2)
padding = vocabulary["<pad>"]
rows = padding + 2 + padding % 2  # more than tokens, and an even number
config = transformers.MarianConfig(
    vocab_size=rows, decoder_vocab_size=rows, d_model=24, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4,
    decoder_attention_heads=2, encoder_ffn_dim=40, decoder_ffn_dim=28, activation_function="silu", scale_embedding=True,
    max_position_embeddings=64, pad_token_id=padding, decoder_start_token_id=padding, eos_token_id=0, forced_eos_token_id=0)
model = transformers.MarianMTModel(config)
with torch.no_grad():
    for name, weight in model.named_parameters():
        if "embed_positions" not in name:
            weight.copy_((0.2 if "shared" in name else 0.4) * torch.randn_like(weight) + name.endswith("norm.weight"))
    model.final_logits_bias.copy_(0.3 * torch.randn_like(model.final_logits_bias))
    model.final_logits_bias[0, padding + 1:] = -50  # rows without a token
model.generation_config.update(num_beams=4, bad_words_ids=[[padding]])
model.save_pretrained(directory)
with open(f"{directory}/tokenizer_config.json", "w") as file:
    json.dump({"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de"}, file, indent=2)
model = transformers.MarianMTModel.from_pretrained(directory).eval()
tokenizer = transformers.MarianTokenizer.from_pretrained(directory)

file_ids = np.arange(rows)  # of the ids of mtf-train, where padding is 0 and the end of a text 1
for place, token in enumerate([padding, 0]):
    at = int(np.flatnonzero(file_ids == token)[0])
    file_ids[[place, at]] = file_ids[[at, place]]
draws = np.random.default_rng(8)


def sentences(lengths):
    ids = np.zeros((len(lengths), max(lengths)), np.int32)
    for row, length in zip(ids, lengths):
        row[:length] = draws.integers(2, rows, length)
        row[length - 1] = 1
    return ids


def tensor(ids):
    return torch.tensor(file_ids[ids])


inputs, targets = sentences([40, 12, 5, 1]), sentences([36, 9, 3, 2])
before = np.concatenate([np.zeros((4, 1), np.int32), targets[:, :-1]], 1)
with torch.no_grad():
    logits = model(input_ids=tensor(inputs), attention_mask=torch.tensor(inputs != 0), decoder_input_ids=tensor(before)).logits
save_file({"input/inputs": inputs, "input/targets": targets, "output/logits": logits.numpy()[..., file_ids[1:]][targets != 0]},
          f"{directory}/reference.safetensors")

texts = [" ".join("".join(words.choices(syllables["source"], k=words.randint(1, 3))) for _ in range(words.randint(1, 6)))
         for _ in range(20)]
texts[1:4] = [">>deu<< " + texts[1], ">>fra<<" + texts[2], texts[3] + "  xq $ the"]
outputs, tokens = [], []
for text in texts:
    # The 13th token of a text that does not end is the end, which config.json forces.
    made = model.generate(**tokenizer([text], return_tensors="pt"), num_beams=1, max_new_tokens=13, no_repeat_ngram_size=2)[0]
    outputs.append(tokenizer.decode([i for i in made.tolist() if i != vocabulary["<unk>"]], skip_special_tokens=True))
    for found in (tokenizer(text), tokenizer(text_target=text)):
        tokens.append(" ".join(tokenizer.convert_ids_to_tokens(found.input_ids[:-1])))
for name, lines in (("inputs", texts), ("outputs", outputs), ("tokens", tokens)):
    with open(f"{directory}/{name}.txt", "w") as file:
        file.writelines(line + "\n" for line in lines)

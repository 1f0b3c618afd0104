#!/usr/bin/env python3
"""Makes a tiny random BART, mBART or NLLB with its tokeniser, and what `transformers` computes with them:
make_hf_bart.py bart|mbart|nllb DIRECTORY

The directory gets the model (save_pretrained), tokenizer.json, tokenizer_config.json, and
  reference.safetensors         input/inputs, input/targets: four pairs of ids of mtf-train, padded with 0; output/logits of the
                                targets in the order of these ids
  inputs.txt, outputs.txt       20 texts, and what greedy search makes of them in at most 12 tokens, no two of which come twice
  tokens.txt                    the tokens of each text of inputs.txt
"""
import json
import random
import sys

import numpy as np
import tokenizers
import torch
import transformers
from safetensors.numpy import save_file

kind, directory = sys.argv[1:]
torch.manual_seed(9)
words = random.Random(9)
draws = np.random.default_rng(9)
syllables = "an the ing er on st out re to in ein der ung aus ge zu".split()


def text(count):
    return " ".join("".join(words.choices(syllables, k=words.randint(1, 3))) for _ in range(count))


is_bart = kind == "bart"
trained = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
trained.pre_tokenizer = (tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False) if is_bart
                         else tokenizers.pre_tokenizers.Metaspace())
trained.train_from_iterator([text(8) for _ in range(300)], tokenizers.trainers.BpeTrainer(
    vocab_size=70, special_tokens=["<s>", "<pad>", "</s>", "<unk>"]))
merges = [tuple(pair) for pair in json.loads(trained.to_str())["model"]["merges"]]
languages = [] if is_bart else ["eng_Latn", "deu_Latn", "fra_Latn"]
if is_bart:
    tokenizer = transformers.BartTokenizer(vocab=trained.get_vocab(), merges=merges)
else:
    tokenizer = transformers.NllbTokenizer(vocab=trained.get_vocab(), merges=merges, src_lang="eng_Latn", tgt_lang="deu_Latn",
                                           additional_special_tokens=languages)
rows = len(tokenizer) + 2 + len(tokenizer) % 2  # more than tokens, and an even number
family = {"bart": "Bart", "mbart": "MBart", "nllb": "M2M100"}[kind]
config = getattr(transformers, family + "Config")(
    vocab_size=rows, d_model=16, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=2,
    encoder_ffn_dim=20, decoder_ffn_dim=24, max_position_embeddings=48, decoder_start_token_id=2,
    scale_embedding=not is_bart, encoder_layerdrop=0.0, decoder_layerdrop=0.0)
Model = getattr(transformers, family + "ForConditionalGeneration")
model = Model(config)
with torch.no_grad():
    for name, weight in model.named_parameters():
        is_scale = name.endswith("norm.weight") or name.endswith("layernorm_embedding.weight")
        weight.copy_((0.2 if "shared" in name else 0.5) * torch.randn_like(weight) + is_scale)
    no_tokens = [1, *range(len(tokenizer), rows)]  # they are hardly ever predicted
    if kind == "nllb":
        last = model.model.decoder.layer_norm.bias
        last *= 2
        model.model.shared.weight[no_tokens] = -10 * last / last.square().sum()
    else:
        model.final_logits_bias.copy_(0.3 * torch.randn_like(model.final_logits_bias))
        model.final_logits_bias[0, no_tokens] = -50
first = tokenizer.convert_tokens_to_ids("<s>" if is_bart else "deu_Latn")
model.generation_config.update(num_beams=4, forced_bos_token_id=first, no_repeat_ngram_size=2, max_length=15)
model.save_pretrained(directory)
tokenizer.save_pretrained(directory)
model = Model.from_pretrained(directory).eval()

file_ids = np.arange(rows)  # the file's ids, by those of mtf-train, where padding is 0 and the end of a text 1
for place, token in enumerate([1, 2]):
    at = int(np.flatnonzero(file_ids == token)[0])
    file_ids[[place, at]] = file_ids[[at, place]]


def sentences(lengths):
    ids = np.zeros((len(lengths), max(lengths)), np.int32)
    for row, length in zip(ids, lengths):
        row[:length] = draws.integers(2, rows, length)
        row[length - 1] = 1
    return ids


def tensor(ids):
    return torch.tensor(file_ids[ids])


inputs, targets = sentences([40, 12, 5, 1]), sentences([36, 9, 3, 2])
before = np.concatenate([np.ones((4, 1), np.int32), targets[:, :-1]], 1)
with torch.no_grad():
    logits = model(input_ids=tensor(inputs), attention_mask=torch.tensor(inputs != 0), decoder_input_ids=tensor(before)).logits
save_file({"input/inputs": inputs, "input/targets": targets, "output/logits": logits.numpy()[..., file_ids][targets != 0]},
          f"{directory}/reference.safetensors")

texts = [text(words.randint(1, 6)) for _ in range(20)]
lines = {"inputs": texts, "outputs": [], "tokens": []}
for line in texts:
    encoded = tokenizer([line], return_tensors="pt")
    lines["tokens"].append(" ".join(tokenizer.convert_ids_to_tokens(encoded.input_ids[0])))
    # 15 tokens: what the decoder begins with, the first token of the text, 12 more, and the end, which is forced.
    made = model.generate(**encoded, num_beams=1, forced_eos_token_id=2)[0]
    lines["outputs"].append(tokenizer.decode(made, skip_special_tokens=True))
for name, written in lines.items():
    with open(f"{directory}/{name}.txt", "w") as file:
        file.writelines(line + "\n" for line in written)

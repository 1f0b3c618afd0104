#!/usr/bin/env python3
"""Makes a tiny random language model, and what `transformers` computes with it: make_hf_lm.py KIND DIRECTORY

KIND is gpt2, opt, gpt_neox, falcon, bloom, phi, cohere, llama, smollm3, qwen2, qwen3, olmo3, phi3, glm4, gemma2, qwen2_moe or
olmoe.
The directory gets config.json and model.safetensors (save_pretrained), tokenizer.json and tokenizer_config.json, and
  reference.safetensors
    input/targets     four rows of ids of this program (data/vocabulary/renumbering.h), padded with 0
    output/logits     float32 logits of each target that is no padding, in the order of these ids, without those of a
                      padding that the model does not have
  prompts.txt         20 texts, one a line
  continuations.txt   what greedy search writes behind each, at most 16 tokens
"""
import os
import sys

import numpy as np
import tokenizers
import torch
import transformers
from safetensors.numpy import save_file

kind, directory = sys.argv[1:]
seeds = {"gpt2": 21, "llama": 22, "qwen2": 23, "qwen3": 24, "gemma2": 25, "qwen2_moe": 26, "olmoe": 27, "gpt_neox": 28,
         "phi": 29, "smollm3": 30, "olmo3": 31, "opt": 32, "cohere": 33, "falcon": 34, "bloom": 35, "phi3": 36, "glm4": 37}
torch.manual_seed(seeds[kind])
has_begin = kind in ("llama", "gemma2")
os.makedirs(directory, exist_ok=True)

TEXTS = ["the sun is up and the day is long", "it was three to four, and it rains", "one of the two is here, is it not?",
         "a model of words reads all that stands before", "the end of the line is not the end of the text"] * 4
begin = "<s>" if has_begin else None
end = "<|endoftext|>" if kind == "gpt2" else "</s>" if has_begin else "<|im_end|>"
special = ["<unk>", begin, end] if has_begin else [end] if kind == "gpt2" else ["<|im_start|>", end]
tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = tokenizers.decoders.ByteLevel()
trainer = tokenizers.trainers.BpeTrainer(
    vocab_size=120 - (0 if has_begin else len(special)), special_tokens=special if has_begin else [],
    show_progress=False)
tokenizer.train_from_iterator(TEXTS, trainer)
tokenizer.add_special_tokens(special)  # behind all others unless one begins texts
fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=begin, eos_token=end)
fast.save_pretrained(directory)
tokens = len(tokenizer.get_vocab())
rows = tokens + (4 if kind.startswith("qwen") else 0)
begin_id, end_id = (tokenizer.token_to_id(token) if token else None for token in (begin, end))

common = dict(vocab_size=rows, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
              max_position_embeddings=64, bos_token_id=begin_id, eos_token_id=end_id)
if kind == "gpt2":
    config = transformers.GPT2Config(
        vocab_size=rows, n_embd=16, n_layer=2, n_head=4, n_positions=64, bos_token_id=end_id, eos_token_id=end_id)
elif kind == "llama":
    scaling = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32, "rope_theta": 500.0}
    config = transformers.LlamaConfig(num_key_value_heads=2, head_dim=8, rope_parameters=scaling, tie_word_embeddings=False,
                                      rms_norm_eps=1e-5, **common)
elif kind == "qwen2":
    config = transformers.Qwen2Config(num_key_value_heads=2, tie_word_embeddings=True, **common)
elif kind == "gemma2":  # rows are longer than the window, and no size is what another one makes it
    config = transformers.Gemma2Config(num_key_value_heads=2, head_dim=6, sliding_window=5, query_pre_attn_scalar=9,
                                       attn_logit_softcapping=2.0, final_logit_softcapping=5.0, pad_token_id=None,
                                       **common)
elif kind == "qwen2_moe":
    config = transformers.Qwen2MoeConfig(num_key_value_heads=2, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=8,
                                         shared_expert_intermediate_size=12, **common)
elif kind == "olmoe":
    config = transformers.OlmoeConfig(num_key_value_heads=2, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True,
                                      pad_token_id=None, **common)
elif kind == "gpt_neox":  # a part of a head is turned, at angles that yarn scales
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 4.0,
               "beta_slow": 1.0, "partial_rotary_factor": 4 / 6, "rope_theta": 10000.0}
    config = transformers.GPTNeoXConfig(rope_parameters=scaling, **{**common, "hidden_size": 24, "intermediate_size": 28})
elif kind == "smollm3":  # one of four layers has no rotary positions
    config = transformers.SmolLM3Config(num_key_value_heads=2, pad_token_id=None, **{**common, "num_hidden_layers": 4})
elif kind == "olmo3":  # one layer without a window, whose angles yarn scales
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 4.0, "beta_slow": 1.0,
            "attention_factor": 1.2, "rope_theta": 10000.0}
    config = transformers.Olmo3Config(
        num_key_value_heads=2, sliding_window=5, layer_types=["sliding_attention", "full_attention"], pad_token_id=None,
        rope_parameters={"full_attention": yarn, "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}, **common)
elif kind == "opt":
    del common["intermediate_size"]
    config = transformers.OPTConfig(ffn_dim=24, pad_token_id=None, **common)
elif kind == "cohere":
    config = transformers.CohereConfig(num_key_value_heads=2, logit_scale=0.25, pad_token_id=None, **common)
elif kind == "falcon":  # the new architecture
    del common["intermediate_size"]
    config = transformers.FalconConfig(new_decoder_architecture=True, num_kv_heads=2, ffn_hidden_size=24, **common)
elif kind == "bloom":  # six heads have the slopes of four and of eight
    config = transformers.BloomConfig(vocab_size=rows, hidden_size=24, n_layer=2, n_head=6, bos_token_id=end_id,
                                      eos_token_id=end_id)
elif kind == "phi3":  # three of four entries of a head are turned, at angles with the short factors of longrope
    longrope = {"rope_type": "longrope", "short_factor": [1.0, 1.5, 2.5], "long_factor": [1.2, 3.0, 7.5], "rope_theta": 1000.0,
                "factor": 4.0, "original_max_position_embeddings": 48, "partial_rotary_factor": 0.75}
    config = transformers.Phi3Config(
        num_key_value_heads=2, rope_parameters=longrope, original_max_position_embeddings=48, pad_token_id=None,
        **{**common, "hidden_size": 32, "max_position_embeddings": 192})
elif kind == "glm4":
    config = transformers.Glm4Config(num_key_value_heads=2, head_dim=8, pad_token_id=None, **common)
elif kind == "phi":
    config = transformers.PhiConfig(num_key_value_heads=2, **common)
else:
    config = transformers.Qwen3Config(num_key_value_heads=2, head_dim=6, tie_word_embeddings=True, **common)
model = transformers.AutoModelForCausalLM.from_config(config)
with torch.no_grad():
    for name, weight in model.named_parameters():  # large enough that every weight matters
        is_norm = "norm" in name or ".ln_" in name
        if name == "model.decoder.embed_positions.weight":
            weight[:2] = 0  # rows that no text reads
            weight = weight[2:]
        weight.copy_((0.2 if is_norm or "bias" in name else 0.4) * torch.randn_like(weight))
        if is_norm and kind == "gemma2":
            weight.copy_(weight.bfloat16())  # as published, so that 1 is added and subtracted exactly
        elif is_norm and not name.endswith("bias"):
            weight += 1
model.save_pretrained(directory)
os.remove(os.path.join(directory, "generation_config.json"))  # says what config.json says
model = transformers.AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager", experts_implementation="eager").eval()

# The file's id of each id here: `begin` is 0, `end` is 1; without `begin` 0 is new, and the file's 0 stands behind all others.
file_ids = list(range(rows))


def move_to(place, token):
    other = file_ids.index(token)
    file_ids[place], file_ids[other] = file_ids[other], file_ids[place]


if begin:
    move_to(0, begin_id)
else:
    file_ids.append(file_ids[0])
    file_ids[0] = -1
move_to(1, end_id)
ours = {token: number for number, token in enumerate(file_ids)}

random = np.random.default_rng(7)
targets = np.zeros((4, 40), np.int32)
for row, length in zip(targets, [40, 25, 8, 1]):
    row[:length] = [ours[token] for token in random.integers(3, tokens, length)]
    row[length - 1] = 1
first = begin_id if begin else end_id
before = np.concatenate([np.zeros((4, 1), np.int32), targets[:, :-1]], 1)
read = np.array([[first if number == 0 else file_ids[number] for number in row] for row in before.tolist()])
with torch.no_grad():  # no position of a text sees what is read behind it
    logits = model(input_ids=torch.tensor(read)).logits.numpy()
kept = [token for token in file_ids if token >= 0]
save_file({"input/targets": targets, "output/logits": logits[..., kept][targets != 0]},
          os.path.join(directory, "reference.safetensors"),
          {"made_with": f"transformers {transformers.__version__}, torch {torch.__version__}"})

prompts, continuations = [], []
for number in range(20):
    words = TEXTS[number % 5].split()
    prompts.append(" ".join(words[number // 5:][:2 + number % 6]))
    ids = [first] + tokenizer.encode(prompts[-1], add_special_tokens=False).ids
    with torch.no_grad():
        made = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), do_sample=False,
                              max_new_tokens=16, pad_token_id=end_id)[0, len(ids):].tolist()
    made = made[:made.index(end_id)] if end_id in made else made
    continuations.append(tokenizer.decode(made, skip_special_tokens=False))
for name, lines in (("prompts", prompts), ("continuations", continuations)):
    with open(os.path.join(directory, name + ".txt"), "w") as file:
        file.writelines(line + "\n" for line in lines)
print(f"{len(set(continuations))} different continuations; logits up to {abs(logits).max():.2f}")

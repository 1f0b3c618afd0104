#!/usr/bin/env python3
"""Makes a tiny random encoder that is built like BERT, and what `transformers` computes with it: make_hf_encoders.py KIND DIRECTORY

KIND is roberta or modernbert (masked language models), xlm_roberta (a classifier) or distilbert (a model that answers questions). The directory
gets config.json, model.safetensors, tokenizer.json and tokenizer_config.json (save_pretrained), reference.safetensors and pairs.json:
  input/inputs, input/inputs_segmentation    four rows of tokens, padded, with the ids of mtf-train
  input/inputs_type                          zeros
  input/targets, input/targets_place         of masked language models: the tokens at the indices 0 to 38 of each row, and these indices
  input/labels                               of xlm_roberta: zeros
  input/answer_mask, answer_start, answer_end   of distilbert: where there are tokens, and zeros
  output/logits                              float32: those of tokens in the order of their ids in mtf-train, of classes, of both ends
  pairs.json                                 a list of [text, pair or null, ids in the order of the tokeniser's file]
"""
import io
import json
import os
import sys

import make_hf_tokenizers
import numpy as np
import sentencepiece
import torch
import transformers
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXTS = [line for line in make_hf_tokenizers.TRAINING.split("\n") if line]
PAIRS = [("The dog doesn't mind", None), ("", None), ("A quick fox", "It jumps over the dog."), (" ½ ﬁne  Füchse ", "größere\tHunde 狐"),
         ("<mask> over the <mask>.", "</s> and <s>"), ("🦊 e\u0301 \u3000x", "zero\u200bwidth")]
# Texts with the added tokens of a ModernBERT.
MODERN_PAIRS = [("A [MASK]   fox  jumps", "in [unused1]     an |||IP_ADDRESS|||"), ("[MASK][MASK] over", "[unused0]s")]
# What the normaliser of the unigram model replaces, beside nothing else.
REPLACED = {"ﬁ": "fi", "½": "1 2", "e\u0301": "é", "u\u0308": "ü", "\u3000": " ", "\t": " ", "\u200b": "", "\u00a0": " ", "Ａ": "A", "ﷺ": "صلى الله"}


def charsmap():
    """The replacements as SentencePiece compiles them: field 2 of field 3 of its model."""
    rules = "".join("\t".join(" ".join(f"{ord(c):x}" for c in side) for side in pair) + "\n" for pair in REPLACED.items())
    path = "/tmp/make_hf_encoders.tsv"
    with open(path, "w") as file:
        file.write(rules)
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXTS), model_writer=written, vocab_size=130, model_type="unigram",
                                             normalization_rule_tsv=path, minloglevel=2)
    os.remove(path)
    return dict(fields(dict(fields(written.getvalue()))[3]))[2], pieces_of(written.getvalue())


def fields(message):
    """The fields of a message of protobuf: numbers, and bytes for what has a length."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or number()
        yield key >> 3, message[at:at + size]
        at += size


def pieces_of(model):
    pieces = [dict(fields(value)) for key, value in fields(model) if key == 1]
    return [(piece[1].decode(), float(np.frombuffer(piece.get(2, bytes(4)), "<f4")[0])) for piece in pieces]


def tokenizer_of(kind):
    if kind == "roberta":
        trained = Tokenizer(models.BPE())
        trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trained.train_from_iterator(TEXTS, trainers.BpeTrainer(
            vocab_size=299, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False))
        model = json.loads(trained.to_str())["model"]
        return transformers.RobertaTokenizer(vocab={**model["vocab"], "<mask>": 299}, merges=[tuple(pair) for pair in model["merges"]])
    if kind == "xlm_roberta":
        replacements, pieces = charsmap()
        special = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
        return transformers.XLMRobertaTokenizer(vocab=special + pieces[3:] + [("<mask>", 0.0)], _spm_precompiled_charsmap=replacements)
    if kind == "modernbert":
        return modernbert_tokenizer()
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + letters + ["##" + c for c in letters] + list(".,!?-'0123456789")
    pieces += "the fox dog ##ing ##ed over it quick".split()
    return transformers.DistilBertTokenizer(vocab={piece: i for i, piece in enumerate(pieces)})


def modernbert_tokenizer():
    """A tokeniser with the tokens of ModernBERT's: some of texts before and behind the pieces, then those around texts, and unused ones."""
    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=290, special_tokens=["|||IP_ADDRESS|||", "<|padding|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    made.add_tokens([AddedToken(token, special=False, normalized=True) for token in ("    ", "  ", "|||EMAIL_ADDRESS|||")])
    made.add_special_tokens(["[UNK]", "[CLS]", "[SEP]", "[PAD]", AddedToken("[MASK]", lstrip=True, special=True)])
    made.add_tokens([AddedToken(f"[unused{i}]", special=False, normalized=True) for i in range(2)])
    special = [(token, made.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=special)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", mask_token=AddedToken(
            "[MASK]", lstrip=True, special=True), model_input_names=["input_ids", "attention_mask"], model_max_length=8192)


def modernbert(tokenizer):
    return transformers.ModernBertForMaskedLM(transformers.ModernBertConfig(
        vocab_size=len(tokenizer) + 3, hidden_size=24, num_hidden_layers=5, num_attention_heads=3, intermediate_size=20, local_attention=8,
        initializer_range=0.02, classifier_pooling="mean", pad_token_id=tokenizer.pad_token_id, cls_token_id=tokenizer.cls_token_id,
        bos_token_id=tokenizer.cls_token_id, sep_token_id=tokenizer.sep_token_id, eos_token_id=tokenizer.sep_token_id))


def model_of(kind, tokenizer):
    tokens = len(tokenizer)
    if kind == "modernbert":
        return modernbert(tokenizer)
    sizes = dict(vocab_size=tokens, max_position_embeddings=44, initializer_range=0.02)
    if kind == "distilbert":
        return transformers.DistilBertForQuestionAnswering(transformers.DistilBertConfig(
            dim=24, n_layers=2, n_heads=4, hidden_dim=40, qa_dropout=0.25, **sizes))
    sizes.update(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40, type_vocab_size=1, layer_norm_eps=1e-5)
    if kind == "roberta":
        return transformers.RobertaForMaskedLM(transformers.RobertaConfig(hidden_act="gelu_new", **sizes))
    return transformers.XLMRobertaForSequenceClassification(transformers.XLMRobertaConfig(
        classifier_dropout=0.25, id2label={0: "no", 1: "maybe", 2: "yes"}, label2id={"no": 0, "maybe": 1, "yes": 2}, **sizes))


def ids_here(kind, tokenizer, rows):
    """The id of each token of the file in mtf-train, where padding is 0 and what ends a row 1."""
    file_ids = np.arange(rows)
    if kind != "distilbert":
        for place, token in ((0, tokenizer.pad_token_id), (1, tokenizer.sep_token_id)):
            other = np.flatnonzero(file_ids == token)[0]
            file_ids[[place, other]] = file_ids[[other, place]]
    return np.argsort(file_ids)


def main():
    kind, directory = sys.argv[1:]
    torch.manual_seed(12)
    tokenizer = tokenizer_of(kind)
    made = model_of(kind, tokenizer)
    with torch.no_grad():
        for name, weight in made.named_parameters():  # large enough that every weight matters
            weight.copy_((0.2 if "norm" in name.lower() or "bias" in name else 0.3) * torch.randn_like(weight))
            if "norm" in name.lower() and name.endswith("weight"):
                weight += 1
    made.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    model = type(made).from_pretrained(directory, attn_implementation="eager").eval()

    random = np.random.default_rng(6)
    here = ids_here(kind, tokenizer, made.config.vocab_size)
    ids = np.full((4, 40), tokenizer.pad_token_id)
    for row, count in enumerate([40, 30, 14, 3]):
        ids[row, :count] = random.integers(5, 290 if kind == "modernbert" else len(tokenizer), count)
    real = (ids != tokenizer.pad_token_id).astype(np.int32)
    with torch.no_grad():
        output = model(input_ids=torch.tensor(ids), attention_mask=torch.tensor(real))
    tensors = {"input/inputs": here[ids].astype(np.int32), "input/inputs_segmentation": real, "input/inputs_type": np.zeros_like(real)}
    if kind in ("roberta", "modernbert"):
        tensors["input/targets"] = tensors["input/inputs"][:, :39].copy()
        tensors["input/targets_place"] = np.tile(np.arange(39, dtype=np.int32), (4, 1))
        logits = output.logits.numpy()[:, :39, np.argsort(here)]
    elif kind == "xlm_roberta":
        tensors["input/labels"] = np.zeros(4, np.int32)
        logits = output.logits.numpy()
    else:
        tensors.update({"input/answer_mask": real, "input/answer_start": np.zeros(4, np.int32), "input/answer_end": np.zeros(4, np.int32)})
        logits = np.stack([output.start_logits.numpy(), output.end_logits.numpy()], -1)
    save_file({**tensors, "output/logits": np.ascontiguousarray(logits)}, os.path.join(directory, "reference.safetensors"),
              {"made_with": f"transformers {transformers.__version__}, torch {torch.__version__}"})
    pairs = [[text, pair, tokenizer(text, pair)["input_ids"]]
             for text, pair in PAIRS + (MODERN_PAIRS if kind == "modernbert" else [])]
    with open(os.path.join(directory, "pairs.json"), "w") as file:
        file.write("[" + ",\n".join(json.dumps(pair, ensure_ascii=False) for pair in pairs) + "]\n")
    print(f"{len(tokenizer)} tokens, logits up to {np.abs(logits).max():.2f}")


if __name__ == "__main__":
    main()

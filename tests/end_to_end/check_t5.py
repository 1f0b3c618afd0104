#!/usr/bin/env python3
"""For convert_test.sh: files of weights are compared and made. The first argument says what."""
import json
import os
import shutil
import sys

import numpy as np
import t5_in_float64
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


def logits(reference, output, tolerance):
    """The logits of targets that are no padding are those of the reference."""
    expected, real = load_file(reference)["output/logits"], load_file(reference)["input/targets"] != 0
    difference = np.abs(load_file(output)["output/logits"][real] - expected).max()
    print(f"logits differ by up to {difference:.2g}")
    return difference <= float(tolerance)


def precise(model, reference, output):
    """The logits are as near to those of double precision as those of transformers."""
    given = load_file(reference)
    real = given["input/targets"] != 0
    exact = t5_in_float64.logits(model, given["input/inputs"], given["input/targets"])[real]
    allowed = 1.5 * (given["output/logits"] - exact).std()
    error = (load_file(output)["output/logits"][real] - exact).std()
    print(f"error of the logits {error:.3g}, allowed {allowed:.3g}")
    return error <= allowed


def exact(model, reference, output, tolerance):
    """The logits are those of double precision up to rounding."""
    given = load_file(reference)
    real = given["input/targets"] != 0
    expected = t5_in_float64.logits(model, given["input/inputs"], given["input/targets"])[real]
    difference = np.abs(load_file(output)["output/logits"][real] - expected).max()
    print(f"logits differ by up to {difference:.2g}")
    return difference <= float(tolerance)


def bert(reference, output, tolerance):
    """The vectors and logits of tokens that are no padding are those of the reference."""
    expected, given = load_file(reference), load_file(output)
    real = expected["input/inputs_segmentation"] != 0
    pairs = [(given["tensor/transformer/block_002/layer_001/layer_norm/layer_norm"][real], expected["output/hidden"][real]),
             (given["output/logits"][real[:, :39]], expected["output/logits"][real[:, :39]]),
             (given["tensor/next_sentence/add"], expected["output/next_sentence"])]
    differences = [np.abs(ours - theirs).max() for ours, theirs in pairs]
    print("vectors, logits of tokens and of pairs differ by up to", differences)
    return max(differences) <= float(tolerance)


def encoder(reference, output, tolerance):
    """The logits of texts, or of tokens that are no padding, are those of the reference."""
    expected, given = load_file(reference), load_file(output)["output/logits"]
    logits, real = expected["output/logits"], expected["input/inputs_segmentation"] != 0
    given = given[..., :logits.shape[-1]]
    if logits.ndim == 3:
        given, logits = (values[real[:, :logits.shape[1]]] for values in (given, logits))
    difference = np.abs(given - logits).max()
    print(f"logits differ by up to {difference:.2g}")
    return difference <= float(tolerance)


def losses(one, other, tolerance):
    """The losses of the steps of two runs."""
    a, b = ([json.loads(line)["loss"] for line in open(path)] for path in (one, other))
    print("losses", a, b)
    return len(a) == len(b) and np.allclose(a, b, float(tolerance), 0)


def causal_lm(reference, output, tolerance):
    """The logits of targets that are no padding are those of the reference, which may have none of padding."""
    expected, real = load_file(reference)["output/logits"], load_file(reference)["input/targets"] != 0
    given = load_file(output)["output/logits"][real]
    ids = expected.shape[-1]
    difference = np.abs(given[:, -ids:] - expected).max()
    print(f"logits differ by up to {difference:.2g}")
    return difference <= float(tolerance) and (given[:, :-ids] < -1e8).all()


def near(one, other, name, tolerance):
    difference = np.abs(load_file(one)[name] - load_file(other)[name]).max()
    print(f"{name} differs by up to {difference:.2g}")
    return difference <= float(tolerance)


def make_bert(kind, source, directory):
    """The BERT of `source` with another head, or stored in another way."""
    os.makedirs(directory)
    for file in ("config.json", "vocab.txt", "tokenizer_config.json"):
        shutil.copy(f"{source}/{file}", directory)
    tensors = load_file(source + "/model.safetensors")
    width = tensors["bert.pooler.dense.bias"].shape[0]
    random = np.random.default_rng(1)

    def add(name, size):
        tensors[name + ".weight"] = random.normal(size=(size, width)).astype(np.float32)
        tensors[name + ".bias"] = np.ones(size, np.float32)

    def drop(*prefixes):
        for name in [name for name in tensors if name.startswith(prefixes)]:
            del tensors[name]

    if kind == "encoder":
        drop("cls.")
        tensors = {name.removeprefix("bert."): tensor for name, tensor in tensors.items()}
    elif kind == "old_names":
        tensors = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
                   for name, tensor in tensors.items()}
        tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].copy()
    elif kind == "masked_lm":
        drop("cls.seq_relationship", "bert.pooler")
    elif kind == "classifier":
        drop("cls.")
        add("classifier", 2)
    elif kind == "tagger":
        drop("cls.", "bert.pooler")
        add("classifier", 5)
    else:
        drop("cls.", "bert.pooler")
        add("qa_outputs", 2)
    save_file(tensors, directory + "/model.safetensors")


def same(one, other):
    """The same tensors, bit for bit."""
    a, b = load_file(one), load_file(other)
    if a.keys() != b.keys():
        print("only in one of them:", sorted(a.keys() ^ b.keys()))
        return False
    differing = [name for name in a if a[name].shape != b[name].shape or a[name].tobytes() != b[name].tobytes()]
    print(len(a), "tensors, differing:", differing)
    return not differing


def close(one, other, tolerance):
    a, b = load_file(one), load_file(other)
    return all(np.allclose(a[name], b[name], float(tolerance), 0) for name in a) and a.keys() == b.keys()


def config(one, other):
    """What the second file says of the model is what the first one says."""
    a, b = (json.load(open(path)) for path in (one, other))
    if a["model_type"] == "t5":
        a.setdefault("scale_decoder_outputs", a["tie_word_embeddings"])  # older files leave it out
    if a["model_type"] in ("t5", "gpt_neox"):
        del a["classifier_dropout"]  # of classifiers, which are not converted
    if a["model_type"] == "distilbert" and "qa_dropout" in b:
        del a["seq_classif_dropout"]  # belongs to a head that the model does not have
    if a["model_type"] == "convnext":
        del a["image_size"]  # nothing reads it
    if a["model_type"] in ("bart", "mbart"):
        for key in ("classifier_dropout", "id2label", "label2id"):
            a.pop(key, None)
    ignored = {"transformers_version", "dtype", "torch_dtype", "is_decoder", "use_cache"}
    ignored |= {"add_cross_attention", "layer_types", "max_window_layers", "pretraining_tp", "reorder_and_upcast_attn"}
    ignored |= {"output_router_logits", "sliding_window", "no_rope_layer_interval"}
    ignored |= {"deterministic_flash_attn", "sparse_prediction", "sparse_pred_ignore_index"}  # ways to compute the same
    # Keys for models with other heads.
    ignored |= {"encoder_stride", "stage_names", "out_features", "out_indices", "apply_layernorm", "reshape_hidden_states"}
    wrong = [key for key in a.keys() - ignored if a[key] not in (None, b.get(key)) and not key.startswith("summary_")]
    print("config.json differs in:", wrong)
    return not wrong


def make(kind, source, directory):
    """The model of `source`, stored in another way."""
    os.makedirs(directory)
    shutil.copy(source + "/config.json", directory)
    tensors = load_file(source + "/model.safetensors")
    path = directory + "/model.safetensors"
    if kind == "sharded":
        names = sorted(tensors)
        files = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(names)}
        for file in set(files.values()):
            save_file({name: tensors[name] for name in names if files[name] == file}, f"{directory}/{file}")
        with open(path + ".index.json", "w") as index:
            json.dump({"metadata": {}, "weight_map": files}, index)
    elif kind == "twice":
        names = {"shared.weight": "one.safetensors", "lm_head.weight": "two.safetensors"}
        for file in names.values():
            save_file(tensors, f"{directory}/{file}")
        with open(path + ".index.json", "w") as index:
            json.dump({"metadata": {}, "weight_map": names}, index)
    elif kind == "bfloat16":
        header, data = {}, b""
        for name, tensor in tensors.items():
            half = (tensor.view(np.uint32) >> 16).astype(np.uint16).tobytes()
            header[name] = {"dtype": "BF16", "shape": tensor.shape, "data_offsets": [len(data), len(data) + len(half)]}
            data += half
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + data)
    elif kind == "float16":
        save_file({name: tensor.astype(np.float16) for name, tensor in tensors.items()}, path)
    elif kind == "aliases":
        tensors["decoder.embed_tokens.weight"] = tensors["encoder.embed_tokens.weight"] = tensors.pop("shared.weight")
        tensors["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = np.ones((32, 3), np.float32)
        save_file(tensors, path)
    elif kind == "bytes":
        for name in ("shared.weight", "lm_head.weight"):
            tensors[name] = np.resize(tensors[name], (384, 16))
        save_file(tensors, path)
        written = json.load(open(source + "/config.json"))
        json.dump(written | {"vocab_size": 384}, open(directory + "/config.json", "w"))
        json.dump({"tokenizer_class": "ByT5Tokenizer"}, open(directory + "/tokenizer_config.json", "w"))
    elif kind == "fused":  # a Phi-3
        for layer in range(2):
            for fused, parts in (("self_attn.qkv", ["self_attn.q", "self_attn.k", "self_attn.v"]),
                                 ("mlp.gate_up", ["mlp.gate", "mlp.up"])):
                name = f"model.layers.{layer}.{{}}_proj.weight"
                tensors[name.format(fused)] = np.concatenate([tensors.pop(name.format(part)) for part in parts])
        save_file(tensors, path)
        written = json.load(open(source + "/config.json"))
        json.dump(written | {"model_type": "phi3"}, open(directory + "/config.json", "w"))
    elif kind == "old_rotary":  # as version 4 writes it
        save_file(tensors, path)
        written = json.load(open(source + "/config.json"))
        scaling = written.pop("rope_parameters")
        written.update(rope_theta=scaling.pop("rope_theta"), rope_scaling=scaling)
        json.dump(written, open(directory + "/config.json", "w"))
    else:  # as newer versions write a v1.1 whose logits come from the embedding
        del tensors["lm_head.weight"]
        save_file(tensors, path)
        written = json.load(open(source + "/config.json"))
        written.update(tie_word_embeddings=True, scale_decoder_outputs=False)
        json.dump(written, open(directory + "/config.json", "w"))


def words(target):
    """A SentencePiece model that spells id 7 as the word w7."""
    from sentencepiece import sentencepiece_model_pb2 as schema
    model = schema.ModelProto()
    kinds = schema.ModelProto.SentencePiece
    pieces = [("<pad>", kinds.CONTROL), ("</s>", kinds.CONTROL), ("<unk>", kinds.UNKNOWN)]
    pieces += [(f"\u2581w{i}", kinds.NORMAL) for i in range(3, 96)]
    for text, kind in pieces:
        model.pieces.add(piece=text, score=0 if kind != kinds.NORMAL else -1, type=kind)
    spec = {"model_type": schema.TrainerSpec.UNIGRAM, "vocab_size": 96, "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    model.trainer_spec.MergeFrom(schema.TrainerSpec(**spec))
    model.normalizer_spec.MergeFrom(schema.NormalizerSpec(name="identity"))
    with open(target, "wb") as file:
        file.write(model.SerializeToString())


def texts(reference, vocabulary, name):
    """The ids of a tensor as lines of text."""
    import sentencepiece
    model = sentencepiece.SentencePieceProcessor(model_file=vocabulary)
    for row in load_file(reference)[name].tolist():
        ids = row[: row.index(1)] if 1 in row else row
        print(model.decode([i for i in ids if i != 0]))


def bare(source, target, without=None):
    """The tensors, but for one, without metadata."""
    save_file({name: tensor for name, tensor in load_file(source).items() if name != without}, target)


def nan(source, target, name):
    """The tensors, one of them NaN."""
    tensors = load_file(source)
    save_file(tensors | {name: np.full_like(tensors[name], np.nan)}, target)


def shape(weights, name, *sizes):
    return load_file(weights)[name].shape == tuple(map(int, sizes))


def without(source, target, name):
    """A file that has lost a tensor, but not its metadata."""
    with safe_open(source, "numpy") as file:
        metadata = file.metadata()
    save_file({other: tensor for other, tensor in load_file(source).items() if other != name}, target, metadata)


def escape(source, target):
    """A file whose metadata place a variable outside of the directory that is made of it."""
    with safe_open(source, "numpy") as file:
        metadata = file.metadata()
    tensors = load_file(source)
    save_file(tensors, target, metadata | {"../../escaped.safetensors": min(tensors) + "\n"})


def change(source, assignment, target):
    """A JSON file with another value of a key."""
    written = json.load(open(source))
    key, value = assignment.split("=")
    written[key] = value if not (value.isdigit() or value == "true") else json.loads(value)
    json.dump(written, open(target, "w"))


holds = globals()[sys.argv[1]](*sys.argv[2:])
if holds is not None and not holds:
    sys.exit(1)

"""Small models of every kind with random options, and the data that they train on: the cases of random_arrangements.py.

Most models are trained by SGD or momentum, whose steps are as exact as the gradients. Steps of Adam and its like have
one length for large and small gradients, so that a gradient which is nothing but rounding moves a weight as far as any
other: they get a large epsilon. Steps of Lion are signs, and those of Muon magnify what is small; their learning rates
are small, and their tolerances wide.
"""

import json
import random
import re

STEPS, ROWS = 8, 16
LOSS, WEIGHT = 2e-5, 1e-5  # relative tolerances


class Draw(random.Random):
    def chance(self, probability):
        return self.random() < probability

    def pick(self, *values):
        return self.choice(values)

    def some(self, probability, **options):
        """Each option with this probability; a function draws its value."""
        return {k: v() if callable(v) else v for k, v in options.items() if self.chance(probability)}


# ---- Data ----
NAMES, PLACES, OTHERS = "ada bob eve".split(), "rome oslo".split(), "the old red sun sees good bad".split()


def sentence(r):
    return [r.choice(NAMES + PLACES + OTHERS) for _ in range(r.randint(3, 8))]


def tagged(words):
    return "".join(f"{word} {'B-PER' if word in NAMES else 'B-LOC' if word in PLACES else 'O'}\n" for word in words) + "\n"


def classified(words):
    return f"{' '.join(words)}\t{('none', 'one', 'more')[min(2, len(set(words) & set(NAMES)))]}\n"


def scored(a, b):
    return json.dumps({"a": " ".join(a), "b": " ".join(b), "score": len(set(a) & set(b)) / 2}) + "\n"


def questions_about(words, number):
    text, questions = " ".join(words), []
    for word in ("ada", "oslo"):
        answers = [{"text": word, "answer_start": text.index(word)}] if word in words else []
        question = {"id": f"{number}-{word}", "question": "where " + word, "answers": answers, "is_impossible": not answers}
        questions.append(question)
    return {"context": text, "qas": questions}


def write_data():
    """The sources of all kinds of models, each as train, dev and few."""
    r = Draw(7)
    for part, count in (("train", 160), ("dev", 21), ("few", 5)):
        rows = [(sentence(r), sentence(r)) for _ in range(count)]
        files = {
            "in": [" ".join(a) + ".\n" for a, _ in rows],
            "out": [" ".join(word.capitalize() for word in reversed(a)) + "\n" for a, _ in rows],
            "documents": ["".join(" ".join(sentence(r)) + ".\n" for _ in range(r.randint(2, 5))) + "\n" for _ in rows],
            "tsv": ["text\tlabel\n"] + [classified(a) for a, _ in rows],
            "jsonl": [scored(a, b) for a, b in rows],
            "conll": [tagged(a) for a, _ in rows],
        }
        paragraphs = [questions_about(a + b, i) for i, (a, b) in enumerate(rows[: count // 2])]
        files["json"] = [json.dumps({"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]})]
        for name, lines_of_file in files.items():
            with open(f"{part}.{name}", "w", encoding="utf-8") as file:
                file.write("".join(lines_of_file))


# ---- Layers ----
class Case:
    """A configuration, and what may differ between its arrangements."""

    def __init__(self, r):
        self.r = r
        self.config = {}
        self.teacher = None
        self.fixed_microbatches = None  # statistics of a microbatch matter
        self.texts = None  # the mode in which the model writes texts, and its options
        self.loss, self.weight = LOSS, WEIGHT

    def statistics_of_a_microbatch(self):
        self.fixed_microbatches = self.fixed_microbatches or self.r.pick(1, 2, 4)

    def has_even_rows(self):
        """True if the tokens of a row that have a loss can be computed in parts."""
        return not self.teacher and self.config["model"]["type"] in ("lm", "delimited_lm", "aligned", "bitransformer")


def activation(r):
    return r.pick("relu", "squared_relu", "gelu", "swish", ["gelu", "linear"], ["swish", "linear"])


def attention(case, causal, across=False):
    r = case.r
    heads = r.pick(2, 4)
    options = {"num_heads": heads, "key_value_size": r.pick(4, 8)}
    options |= r.some(
        0.2,
        qk_norm=True,
        soft_cap=0.5,
        prefix_length=lambda: r.randint(1, 3),
        z_loss=0.1,
        combine_dims=False,
        shared_kv=True,
        lora=lambda: {"rank": r.randint(1, 4), "kernels": r.pick(["q", "v"], ["o"], ["q", "k", "v", "o"])},
        extra_logit=0.5,
        bias=lambda: r.pick(True, "qkv"),
        dropout=0.2,
        fold_scaling_into_initializer=False,
        num_memory_heads=lambda: r.pick(1, heads // 2),
    )
    if not across:
        options |= r.some(0.15, convolution_width=lambda: r.randint(1, 4))
    if "shared_kv" in options:
        for name in ("qk_norm", "prefix_length", "convolution_width"):
            options.pop(name, None)
    if across:
        return {"EncDecAttention": options}
    if r.chance(0.25):
        return {"LocalSelfAttention": options | {"radius": r.pick(4, 9, 16)}}
    options |= r.some(0.3, relative_attention_type=lambda: r.pick("bias", "bias_shared"), relative_attention_num_buckets=8)
    options |= r.some(0.2, rotary=True)
    if "rotary" in options:
        options |= r.some(0.5, rotary_scaling=lambda: r.pick({"type": "linear", "factor": 2.5}, {"type": "llama3", "original_length": 16}))
    return {"SelfAttention": options}


def talking_heads(case, across=False):
    r = case.r
    options = {"key_size": 4, "value_size": 4, "dropout": r.pick(0, 0.2)}
    if r.chance(0.5):
        options |= {"key_heads": {"hk": 2}, "softmax_heads": {"hs": 4}, "value_heads": {"hv": 2}}
    else:
        options |= {"key_heads": {"heads": 4, "hk": 2}, "softmax_heads": {"heads": 4, "hs": 2}, "value_heads": {"heads": 4}}
    options["dynamic_projections"] = [name for name in ("x2l", "m2l", "x2w", "m2w") if r.chance(0.4)]
    if not across:
        options |= r.some(0.4, relative_attention_type=lambda: r.pick("bias", "bias_shared"), relative_attention_num_buckets=8)
    return {"TalkingHeadsEncDecAttention" if across else "TalkingHeadsSelfAttention": options}


EXPERT_PLACES = ("capacity_factor_train", "capacity_factor_eval", "min_expert_capacity")


def without(options, *keys):
    """Takes out options that MoE1D refuses, for they have no effect with the others."""
    for key in keys:
        options.pop(key, None)


def experts(case, causal, gating=None):
    r = case.r
    gatings = ["top_2", "top_n", "switch", "switch_max", "ntlb", "top_k", "top_k", "top_k"] + (
        [] if causal else ["expert_selection"] * 2
    )
    options = {
        "gating": gating or r.choice(gatings),
        "num_experts": r.pick(4, 8),
        "hidden_size": r.pick(8, 16),
        "activation": activation(r),
        "group_size": r.pick(8, 16, 64, 1024),
    }
    options |= r.some(
        0.3, dropout_rate=0.2, capacity_factor_train=lambda: r.pick(0.5, 1.0), capacity_factor_eval=lambda: r.pick(0.5, 1.0)
    )
    if r.chance(0.15):
        options["grouping"] = "flat"
        case.statistics_of_a_microbatch()
    gating = options["gating"]
    if gating == "top_k":
        options |= {"experts_per_token": r.pick(1, 2, 3)}
        options |= r.some(
            0.3,
            score="sigmoid",
            selection_bias=True,
            normalize=False,
            scale=2.5,
            weight_on="input",
            router_z=0.01,
            shared_experts=lambda: r.pick(1, 2),
        )
        if "selection_bias" in options:
            options |= {"bias_update_rate": 0.01} | r.some(0.5, centered=True)
        if "shared_experts" in options:
            options |= r.some(0.5, shared_gate=True, shared_hidden_size=16)
        if r.chance(0.3):
            options |= {"expert_groups": 2, "experts_per_token": r.pick(1, 2)} | r.some(
                0.5, group_score="max", groups_per_token=2
            )
        if r.chance(0.4):
            options |= {"dispatch": "capacity"} | r.some(0.5, drop="probability", capacity_factor_train=0.5)
        else:
            without(options, *EXPERT_PLACES)
        if r.chance(0.3):
            options["balance"] = {"coef": 0.1, "scope": r.pick("sequence", "batch")}
            if options["balance"]["scope"] == "batch":
                case.statistics_of_a_microbatch()
        return {"MoE1D": options}
    options |= r.some(0.3, min_expert_capacity=lambda: r.pick(1, 2), loss_coef=0.1, z_loss=0.1)
    if gating in ("top_2", "top_n"):
        options |= r.some(0.4, top_n_num_experts_per_token=lambda: r.pick(1, 2, 3, 4), use_second_place_loss=True)
        if options.get("top_n_num_experts_per_token") == 1:
            options["use_second_place_loss"] = False
        if gating == "top_2":
            without(options, "top_n_num_experts_per_token")
        options |= {
            "second_policy_train": r.pick("all", "none", "threshold", "random"),
            "second_policy_eval": r.pick("all", "none", "threshold", "random"),
        }
        options |= r.some(0.3, second_threshold_train=0.5, second_threshold_eval=0.5)
    else:
        policies = ["argmax", "input_dropout", "input_jitter"] + (["sample"] if gating in ("switch", "switch_max") else [])
        options |= {"switch_policy_train": r.choice(policies), "switch_policy_eval": r.choice(policies)}
        options |= r.some(0.3, switch_temperature=0.5, switch_jitter=0.1)
        if gating in ("ntlb", "expert_selection"):
            without(options, "switch_temperature")
        if gating == "ntlb":
            options |= r.some(0.5, ntlb_top_k=2)
    if gating in ("top_2", "top_n", "switch") and r.chance(0.3):
        options["dispatch"] = "dropless"
        without(options, *EXPERT_PLACES)
    return {"MoE1D": options}


def feed_forward(case, causal, share_of_experts):
    r = case.r
    if r.chance(share_of_experts):
        return experts(case, causal)
    return {"DenseReluDense": {"hidden_size": 32, "activation": activation(r)} | r.some(0.2, dropout=0.2, bias=True)}


def block(case, causal, cross=None, share_of_experts=0.3, self_attention=None):
    r = case.r
    first = self_attention or (talking_heads(case) if r.chance(0.1) else attention(case, causal))
    layers = [first] + ([cross] if cross else []) + [feed_forward(case, causal, share_of_experts)]
    if causal and r.chance(0.15):
        layers.insert(r.randrange(len(layers)), {"causal_conv": {"width": r.randint(1, 5)}})
    if not cross and r.chance(0.15):
        layers = [{"parallel": {"layers": layers} | r.some(0.5, scale="none")}]
    return layers


def transformer(case, type, length, **parts):
    r = case.r
    model = {"type": type, "d_model": 16, "max_length": length, "dropout": r.pick(0, 0.1)} | parts
    model |= r.some(
        0.2,
        shared_embedding_and_softmax=False,
        logit_soft_cap=2.0,
        label_smoothing=0.1,
        z_loss=0.001,
        loss_denominator=200.0,
        positions=lambda: r.pick("sinusoid", "none"),
        token_dropout=0.1,
        block_scope=False,
    )
    if r.chance(0.1):
        model["embedding"] = {"type": "factorized", "inner_size": 8}
    return model


def language_model(case, length, share_of_experts=0.3, **more):
    return transformer(case, "lm", length, num_layers=2, block=block(case, True, share_of_experts=share_of_experts)) | more


def translator(case, length, share_of_experts=0.3, cross=None):
    r = case.r
    if cross is None:
        cross = talking_heads(case, True) if r.chance(0.15) else attention(case, True, across=True)
    return transformer(
        case,
        "bitransformer",
        length,
        encoder={"num_layers": 2, "block": block(case, False, share_of_experts=share_of_experts)},
        decoder={"num_layers": 2, "block": block(case, True, cross, share_of_experts)},
    ) | r.some(0.2, shared_embedding=False)


def encoder(case, share_of_experts=0.3):
    """The layers of a model that reads whole texts."""
    r = case.r
    layers = [{"embedding": {"output": {"d_model": 16}}}]
    if r.chance(0.7):
        layers.append("token_types")
    layers.append({"positions": r.pick("learned", "sinusoid")})
    stack = {"num_layers": 2, "block": block(case, False, share_of_experts=share_of_experts), "dropout": r.pick(0, 0.1)}
    if r.chance(0.3):
        stack["sublayers"] = {"per_layer": ["call_layer", {"dropout": 0.1}, "residual", "layer_norm"], "final": []}
    return layers + [{"transformer": stack}]


# ---- Kinds ----
def texts_of(case, source, length, vocabulary=None, **dev):
    case.config["data"] = {
        "train": source("train"),
        "vocabulary": vocabulary or "bytes",
        "sequence_length": length,
        "packing": case.r.pick("dense", "reference", "none"),
        "cache": "cache",
    }
    case.config["evaluate"] = {"every": 4, "batch_size": 8, "datasets": {"dev": source("dev") | dev}}


def parallel(**options):
    return lambda part: {"type": "parallel", "inputs": part + ".in", "targets": part + ".out"} | options


def lines(**options):
    return lambda part: {"type": "text", "path": part + ".in"} | options


def writes(case, **options):
    r = case.r
    case.scores = {"score.targets": "few.out"} | (
        {"score.inputs": "few.in"} if case.config["model"]["type"] == "bitransformer" else {}
    )
    case.texts = {
        "infer.input": "few.in",
        "infer.max_length": 10,
        "infer.method": r.pick("greedy", "beam"),
        "infer.batch_size": r.pick(2, 64),
    } | options


def lm(case, share_of_experts=0.3, **more):
    r = case.r
    if r.chance(0.5):
        texts_of(case, lines(), 64)
    else:
        texts_of(case, parallel(**{"as": "targets"}), 64)
        more |= r.some(0.4, input_full_attention=True, loss_on_targets_only=True)
    case.config["model"] = language_model(case, 64, share_of_experts, **more)
    writes(case)


def bitransformer(case, share_of_experts=0.3, cross=None):
    texts_of(case, parallel(), {"inputs": 64, "targets": 64})
    case.config["model"] = translator(case, 64, share_of_experts, cross)
    writes(case)


def transparent(case):
    """Two modules of two layers in the encoder, two of three in the decoder."""
    options = {
        "layers_per_encoder_module": 2,
        "encoder_num_modules": 2,
        "layers_per_decoder_module": 3,
        "decoder_num_modules": 2,
    }
    options |= attention(case, True, across=True)["EncDecAttention"] | case.r.some(0.3, mixing_dropout=0.2)
    bitransformer(case)
    model = case.config["model"]
    model["encoder"]["block"] = [attention(case, False), feed_forward(case, False, 0.3)]
    model["decoder"]["block"] = [attention(case, True), {"TransparentEncDecAttention": options}, feed_forward(case, True, 0.3)]


def heads(case, type, source, last, metrics, share_of_experts=0.3, **more):
    length = 48
    case.config["data"] = {"train": source("train"), "vocabulary": "bytes", "sequence_length": length, "cache": "cache"}
    case.config["evaluate"] = {"every": 4, "batch_size": 8, "datasets": {"dev": source("dev") | {"metrics": metrics}}}
    case.config["model"] = {"type": type, "input": "inputs", "layers": encoder(case, share_of_experts) + last} | more


def classifier(case, share_of_experts=0.3):
    r = case.r
    heads(
        case,
        "classifier",
        lambda part: {"type": "labelled_text", "path": part + ".tsv", "text": "text", "labels": "label"},
        ["pooler" if r.chance(0.5) else {"pooler": {"from": "mean"}}, {"dropout": 0.1}, {"dense": {"output": {"classes": 3}}}],
        ["loss", "accuracy", "f1", "f1_micro", "matthews"],
        share_of_experts,
        **r.some(0.3, label_smoothing=0.1, z_loss=0.01),
    )


def regression(case):
    heads(
        case,
        "regression",
        lambda part: {"type": "labelled_text", "path": part + ".jsonl", "text": "a", "pair": "b", "targets": "score"},
        [{"pooler": {"from": case.r.pick("first", "mean")}}, {"dense": {"output": {"targets": 1}}}],
        ["loss", "pearson", "spearman"],
        **case.r.some(0.5, loss={"mean_squared_error": 1, "mean_absolute_error": 0.5}),
    )


def tagger(case):
    heads(
        case,
        "tagger",
        lambda part: {"type": "conll", "path": part + ".conll"},
        [{"dense": {"output": {"tags": 3}}}],
        ["loss", "accuracy", "f1", "entity_precision", "entity_recall", "entity_f1"],
        **case.r.some(0.3, label_smoothing=0.1),
    )


def spans(case):
    heads(
        case,
        "spans",
        lambda part: {"type": "squad", "path": part + ".json", "stride": 8, "max_question": 16},
        [{"dense": {"output": {"span": 2}}}],
        ["loss", "accuracy", "exact_match", "answer_f1"],
    )


def masked_lm(case):
    r = case.r
    objective = {"type": "masked_lm", "mask": "<extra_id_0>", "rate": 0.2} | r.some(
        0.4, whole_words=True, pairs=lambda: r.pick("next_sentence", "sentence_order")
    )
    texts_of(
        case,
        lambda part: {"type": "text", "path": part + ".documents", "join": "document", "objective": objective},
        64,
        {"type": "bytes", "extra_ids": 1},
    )
    case.config["model"] = {"type": "masked_lm", "layers": encoder(case)} | r.some(
        0.3, label_smoothing=0.1, loss_denominator=50.0
    )


def denoising(case, objective):
    r = case.r
    objective |= r.some(0.3, joined=lambda: r.pick(0, 1, 4))
    vocabulary = {"type": "bytes", "extra_ids": 24}
    if r.chance(0.35):
        texts_of(case, lines(objective=objective | {"as": "targets"}), 64, vocabulary)
        case.config["model"] = language_model(case, 64) | r.some(0.5, loss_on_targets_only=True, input_full_attention=True)
    else:
        texts_of(case, lines(objective=objective), {"inputs": 64} if objective["type"] == "span_corruption" else 64, vocabulary)
        cross = attention(case, True, across=True)
        if objective["type"] == "span_corruption" and r.chance(0.6):
            cross["EncDecAttention"] |= {
                "relative_attention_type": r.pick("bias", "bias_shared"),
                "relative_attention_num_buckets": 8,
                "num_sentinels": 24,
            }
        case.config["model"] = translator(case, 64, 0.3, cross)


def span_corruption(case):
    denoising(case, {"type": "span_corruption", "noise_density": case.r.pick(0.15, 0.5), "mean_span": case.r.pick(2, 3)})


def prefix_lm(case):
    denoising(case, {"type": "prefix_lm"})


def ul2(case):
    denoising(
        case,
        {
            "type": "ul2",
            "denoisers": {
                "r": {"mean_span": 3, "mode": "[R]"},
                "x": {"noise_density": 0.5, "mean_span": 4, "mode": "[X]", "weight": 2},
                "s": {"prefix": True, "mode": "[S]"},
            },
        },
    )


def fill_in_the_middle(case):
    texts_of(case, lines(objective={"type": "fill_in_the_middle", "rate": 0.8}), 64, {"type": "bytes", "extra_ids": 3})
    case.config["model"] = language_model(case, 64)


def distillation(case, kind):
    r = case.r
    teacher = Case(r)
    kind(teacher)
    while True:  # a student of the same kind that reads the same features
        student = Case(r)
        kind(student)
        if student.config["data"]["train"] == teacher.config["data"]["train"]:
            break
    case.__dict__.update(student.__dict__)
    case.fixed_microbatches = student.fixed_microbatches or teacher.fixed_microbatches
    for key in ("data", "evaluate"):
        teacher.config[key] = case.config[key]
    case.teacher = teacher.config
    case.config["distill"] = {
        "checkpoint": "",
        "weight": r.pick(0.3, 0.7, 1),
        "temperature": r.pick(1, 2),
        "start_step": r.pick(0, 2),
    }


KINDS = {
    "experts of a language model": lambda case: lm(case, 1),
    "experts of an encoder and a decoder": lambda case: bitransformer(case, 1),
    "experts of a classifier": lambda case: classifier(case, 1),
    "language model": lambda case: lm(case, 0),
    "encoder and decoder": lambda case: bitransformer(case, 0),
    "transparent attention": transparent,
    "masked language model": masked_lm,
    "classifier": classifier,
    "regression": regression,
    "tagger": tagger,
    "spans": spans,
    "span corruption": span_corruption,
    "prefix language model": prefix_lm,
    "mixture of denoisers": ul2,
    "fill in the middle": fill_in_the_middle,
    "distillation of texts": lambda case: distillation(case, case.r.pick(lm, bitransformer)),
    "distillation of a classifier": lambda case: distillation(case, classifier),
}


# ---- Training ----
def learning_rate(case, peak):
    r = case.r
    total = {"total_steps": STEPS}
    return r.pick(
        peak,
        peak,
        peak,
        {"type": "cosine", "learning_rate": peak, "warmup_steps": 2, "end": 0.1} | total,
        {"type": "wsd", "learning_rate": peak, "decay": 0.5, "shape": r.pick("linear", "sqrt", "cosine")} | total,
        {"type": "polynomial", "learning_rate": peak, "power": 2} | total,
        {"type": "inverse_sqrt", "learning_rate": peak, "warmup_steps": 3},
        [
            peak,
            {"type": "linear_warmup", "steps_or_fraction": 0.25} | total,
            {"type": "linear_decay", "steps_or_fraction": 0.5} | total,
        ],
    )


def training(case):
    r = case.r
    kind, peak, options = r.choice(
        [("sgd", 0.1, {}), ("momentum", 0.03, {}), ("momentum", 0.03, {})] * 3
        + [
            ("adam", 0.003, {"epsilon": 1e-2}),
            ("adamw", 0.003, {"epsilon": 1e-2}),
            ("adam_weight_decay", 0.003, {"epsilon": 1e-2}),
            ("adafactor", 0.003, {"min_dim_size_to_factor": 4, "epsilon1": 1e-4}),
            ("lion", 1e-5, {}),
            ("muon", 1e-4, {"epsilon": 1e-2}),
        ]
    )
    if kind == "lion":
        case.weight = None
    if kind in ("muon", "adafactor"):
        case.weight, case.loss = 1e-3, 1e-4
    optimizer = {"type": kind} | options | r.some(0.3, clip_norm=1.0, weight_decay=0.1)
    if r.chance(0.25):
        optimizer["rules"] = r.sample(
            [
                {"match": ["block_000/|layer_000/"], "rate_scale": 0.5},
                {"match": ["embedding"], "weight_decay": 0.2},
                {"match": ["scale"], "learning_rate": peak / 2},
                {"match": ["embedding"], "frozen": True},
            ],
            r.randint(1, 2),
        )
    if r.chance(0.15):
        optimizer["layer_decay"] = 0.8
    case.config["optimizer"] = optimizer
    case.config["learning_rate"] = learning_rate(case, peak)
    train = {"steps": STEPS, "batch_size": ROWS, "log_every": 1} | r.some(0.2, ema_decay=0.9)
    if r.chance(0.15):
        train["noise_scale_decay"] = 0.9
        case.fixed_microbatches = case.fixed_microbatches if (case.fixed_microbatches or 1) > 1 else r.pick(2, 4)
    if '"MoE1D"' in json.dumps(case.config["model"]) and r.chance(0.3):
        train["loss_weights"] = {"balance": 10}
    case.config["train"] = train | {"microbatches": case.fixed_microbatches or 1}
    case.config["checkpoint"] = {"every": 0, "keep_last": 1}
    case.config["run"] = {"threads": 1, "seed": r.randint(1, 1000)}


def make_case(seed, number, pattern=""):
    """Kinds whose names match the pattern take turns in a random order."""
    kinds = [kind for kind in Draw(seed).sample(list(KINDS), len(KINDS)) if re.search(pattern, kind)]
    case = Case(Draw(seed * 1_000_003 + number))
    case.kind = kinds[number % len(kinds)]
    KINDS[case.kind](case)
    training(case)
    return case

"""Masked language models of English and classifiers that start from them, by mtf-train and by PyTorch (transformers, eager),
on the CPU, side by side.

    python tests/bench/encoders_vs_torch.py [build/bin/mtf-train] [--steps 3000] [--epochs 3] [--batch 32] [--threads 1]
        [--rates 0.0005,0.001,0.002] [--classifier-rates 0.0002,0.0005,0.001] [--only recipe,mpnet,bert] [--json FILE]

`recipe` runs configs/runs/masked_lm_small.yaml and shuffled_words.yaml with these numbers of steps, epochs and rows. `mpnet`
trains MPNetForMaskedLM and MPNetForSequenceClassification, of the same size, by PyTorch: the encoder of transformers that has
what the recipe has, an attention bias for the distance of two tokens. `bert`
trains BertForMaskedLM and BertForSequenceClassification of the same size by both programs: mtf-train begins with the initial
weights of PyTorch (mtf-convert), and its masked language model is taken back to transformers, which measures both on the same
hidden tokens. All have the same texts, vocabulary (SentencePiece, trained on them), number of steps, size of a batch, and AdamW
(weight decay 0.01 but for norms and biases, gradients clipped to a norm of 1, a warm-up, then a line to 0). Both programs try
all rates, and each keeps its best: by the loss of the text held out, and by the accuracy of the sentences held out.

PyTorch has the texts as transformers' run_mlm.py has them, cut into rows without regard to documents, and computes logits of
hidden tokens alone, which BertForMaskedLM itself does not: it would take more time. Batches of its classifier are as long as
their longest sentence.

--jobs programs run at the same time, mtf-train beside PyTorch, so that a busy machine slows both. CPU seconds and the largest
memory are those of whole programs (with reading texts, evaluations, and for PyTorch imports). Needs torch, transformers and
sentencepiece from PyPI, and what tools/corpora/build.sh english and tools/corpora/build_shuffled.py make. DIR of --work
(default build/encoders_vs_torch) keeps what is done: a second call goes on.
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import time

LENGTH = 64
LAYERS, D_MODEL, D_FF, HEADS = 2, 128, 512, 4
MEASURED = 64  # rows at a time
EOS = 1  # stands around a text
HIDDEN, MASKED, OTHER = 0.15, 0.8, 0.1  # share of tokens that are predicted; of those, masked or replaced by another one
WARM_UP = {"pretrain": 0.05, "classify": 0.1}  # part of the steps
DROPOUT = {"pretrain": 0.0, "classify": 0.1}
LABELS = ["as_written", "shuffled"]


# ---------------------------------------------------------------------------------------------------------------- PyTorch


class Family:
    """The encoder `bert` or `mpnet` of transformers."""

    def __init__(self, name):
        self.name = name

    def model(self, kind):
        import transformers

        return getattr(transformers, {"bert": "Bert", "mpnet": "MPNet"}[self.name] + kind)

    def config(self, task, pieces):
        """The table has a row for the token that hides others, and is filled up to a multiple of 128, as mtf-train's."""
        # MPNet counts positions from the number of the padding on, which must be 1.
        pad, positions = (0, LENGTH) if self.name == "bert" else (1, LENGTH + 2)
        return self.model("Config")(
            vocab_size=-(-(pieces + 1) // 128) * 128, hidden_size=D_MODEL, num_hidden_layers=LAYERS,
            num_attention_heads=HEADS, intermediate_size=D_FF, max_position_embeddings=positions, num_labels=len(LABELS),
            pad_token_id=pad, hidden_dropout_prob=DROPOUT[task], attention_probs_dropout_prob=DROPOUT[task],
        )  # fmt: skip

    def ids(self, ids):
        """MPNet's numbers of the padding and of the boundary of texts, 0 and 1 here, are the other way round."""
        import torch

        return ids if self.name == "bert" else torch.where(ids < 2, 1 - ids, ids)

    def encoder(self, network):
        return getattr(network, self.name)

    def hidden_logits(self, network, read, predicted):
        head = network.cls if self.name == "bert" else network.lm_head
        return head(self.encoder(network)(input_ids=self.ids(read)).last_hidden_state[predicted])


def initialise(options):
    """Writes initial weights of both models."""
    import torch

    family = Family(options["family"])
    torch.manual_seed(options["seed"])
    for task, kind in (("pretrain", "ForMaskedLM"), ("classify", "ForSequenceClassification")):
        family.model(kind)(family.config(task, options["pieces"])).save_pretrained(f"{options['run']}/{task}")
    return {}


def rows_of_text(path, processor):
    """[rows, LENGTH]: all documents, one after the other, cut into rows."""
    import torch

    ids = []
    with open(path, encoding="utf-8", newline="\n") as file:
        for encoded in processor.encode(file.readlines()):
            ids += encoded or ids and ids[-1] != EOS and [EOS] or []
    rows = torch.tensor(ids)[: len(ids) // (LENGTH - 2) * (LENGTH - 2)].view(-1, LENGTH - 2)
    return torch.nn.functional.pad(rows, (1, 1), value=EOS)


def hide(rows, mask, generator):
    """What the model reads, and which of its tokens are predicted."""
    import torch

    count = round(HIDDEN * LENGTH)
    draws = torch.rand(rows.shape, generator=generator)
    draws[:, 0] = draws[:, -1] = -1
    predicted = torch.zeros_like(rows, dtype=torch.bool).scatter_(1, draws.topk(count).indices, True)
    kind = torch.rand(rows.shape, generator=generator)
    others = torch.randint(mask + 1, rows.shape, generator=generator)
    read = torch.where(kind < MASKED, mask, torch.where(kind < MASKED + OTHER, others, rows))
    return torch.where(predicted, read, rows), predicted


def measure_hidden(family, network, rows, mask):
    """Loss and accuracy of hidden tokens, which are the same in each call."""
    import torch
    import torch.nn.functional as F

    network.eval()
    generator = torch.Generator().manual_seed(1)
    loss = right = count = 0
    with torch.no_grad():
        for batch in rows.split(MEASURED):
            read, predicted = hide(batch, mask, generator)
            logits, targets = family.hidden_logits(network, read, predicted), family.ids(batch[predicted])
            loss += F.cross_entropy(logits, targets, reduction="sum").item()
            right += (logits.argmax(-1) == targets).sum().item()
            count += len(targets)
    network.train()
    return {"loss": loss / count, "accuracy": right / count, "tokens": count}


def labelled(path, processor):
    """(ids, label) of each row."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    encoded = processor.encode([row["text"] for row in rows])
    return [
        ([EOS, *ids[: LENGTH - 2], EOS], LABELS.index(row["label"])) for ids, row in zip(encoded, rows, strict=True)
    ]


def padded(examples):
    import torch

    longest = max(len(ids) for ids, _ in examples)
    ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids, _ in examples])
    return ids, (ids != 0).long(), torch.tensor([label for _, label in examples])


def measure_labels(family, network, examples):
    import torch

    network.eval()
    right = 0
    with torch.no_grad():
        for i in range(0, len(examples), MEASURED):
            ids, mask, labels = padded(examples[i : i + MEASURED])
            right += (network(input_ids=family.ids(ids), attention_mask=mask).logits.argmax(-1) == labels).sum().item()
    network.train()
    return {"accuracy": right / len(examples)}


def make_optimizer(network, task, steps, rate):
    import torch

    kinds = {False: [], True: []}
    for name, weight in network.named_parameters():
        kinds["norm" in name.lower() or "bias" in name].append(weight)
    groups = [{"params": kinds[False], "weight_decay": 0.01}, {"params": kinds[True], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, fused=True)
    rising = max(1, round(WARM_UP[task] * steps))
    factor = lambda step: min((step + 1) / rising, (steps - step) / (steps - rising))
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train_by_torch(network, task, steps, rate, batch_loss):
    """Calls batch_loss() for each step; returns its losses."""
    import torch

    optimizer, schedule = make_optimizer(network, task, steps, rate)
    losses = []
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss = batch_loss()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 100 == 99:
            print(f"step {step + 1} loss {sum(losses[-100:]) / 100:.4f}", flush=True)
    return losses


def pretrain(options):
    import sentencepiece
    import torch
    import torch.nn.functional as F

    family = Family(options["family"])
    torch.manual_seed(options["seed"])
    generator = torch.Generator().manual_seed(options["seed"])
    processor = sentencepiece.SentencePieceProcessor(model_file=options["vocabulary"])
    mask = processor.get_piece_size()
    network = family.model("ForMaskedLM").from_pretrained(f"{options['initial']}/pretrain").train()
    rows = rows_of_text(f"{options['data']}/train.txt", processor)
    order = iter(())

    def batch_loss():
        nonlocal order
        numbers = next(order, None)
        if numbers is None or len(numbers) < options["batch"]:
            order = iter(torch.randperm(len(rows), generator=generator).split(options["batch"]))
            numbers = next(order)
        read, predicted = hide(rows[numbers], mask, generator)
        return F.cross_entropy(family.hidden_logits(network, read, predicted), family.ids(rows[numbers][predicted]))

    begin = time.process_time()
    train_by_torch(network, "pretrain", options["steps"], options["rate"], batch_loss)
    seconds = time.process_time() - begin
    network.save_pretrained(options["run"])
    valid = rows_of_text(f"{options['work']}/valid.txt", processor)
    return {"rows": len(rows), "step_cpu_seconds": seconds, **measure_hidden(family, network, valid, mask)}


def measure(options):
    """A masked language model that mtf-train has trained."""
    import sentencepiece

    family = Family(options["family"])
    processor = sentencepiece.SentencePieceProcessor(model_file=options["vocabulary"])
    network = family.model("ForMaskedLM").from_pretrained(options["run"])
    valid = rows_of_text(f"{options['work']}/valid.txt", processor)
    return measure_hidden(family, network, valid, processor.get_piece_size())


def classify(options):
    import sentencepiece
    import torch

    family = Family(options["family"])
    torch.manual_seed(options["seed"])
    generator = torch.Generator().manual_seed(options["seed"])
    processor = sentencepiece.SentencePieceProcessor(model_file=options["vocabulary"])
    train, valid = (labelled(f"{options['data']}/shuffled.{part}.tsv", processor) for part in ("train", "valid"))
    network = family.model("ForSequenceClassification").from_pretrained(f"{options['initial']}/classify").train()
    if options["start"]:
        pretrained = family.encoder(family.model("ForMaskedLM").from_pretrained(options["start"]))
        family.encoder(network).load_state_dict(pretrained.state_dict(), strict=False)  # it has no pooler
    numbers = iter(())

    def batch_loss():
        nonlocal numbers
        chosen = next(numbers, None)
        if chosen is None:
            numbers = iter(torch.randperm(len(train), generator=generator).split(options["batch"]))
            chosen = next(numbers)
        ids, mask, labels = padded([train[i] for i in chosen.tolist()])
        return network(input_ids=family.ids(ids), attention_mask=mask, labels=labels).loss

    steps = options["epochs"] * -(-len(train) // options["batch"])
    begin = time.process_time()
    train_by_torch(network, "classify", steps, options["rate"], batch_loss)
    return {"steps": steps, "step_cpu_seconds": time.process_time() - begin, **measure_labels(family, network, valid)}


TASKS = {"initialise": initialise, "pretrain": pretrain, "measure": measure, "classify": classify}


def run_task(path):
    """Writes what the task returns behind its description."""
    import torch
    import transformers

    with open(path, encoding="utf-8") as file:
        options = json.load(file)
    torch.set_num_threads(options["threads"])
    transformers.logging.set_verbosity_error()
    result = TASKS[options["task"]](options)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    with open(path.removesuffix(".task.json") + ".result.json", "w", encoding="utf-8") as file:
        json.dump({**result, **versions}, file)


# ------------------------------------------------------------------------------------------------------ both programs


class Runs:
    """Programs that run, and what they have cost. A name whose figures are kept is not run again."""

    def __init__(self, options):
        self.options = options

    def path(self, name, suffix=""):
        return f"{self.options.work}/{name}{suffix}"

    def torch(self, name, family, task, **more):
        """The command that does a task in PyTorch."""
        description = {
            "task": task, "family": family, "initial": self.path(f"initial/{family}"), "work": self.options.work, "data": self.options.data, "seed": self.options.seed,
            "threads": self.options.threads, "vocabulary": self.path("vocabulary.model"), "run": self.path(name),
            **more,
        }  # fmt: skip
        path = self.path(name, ".task.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(description, file, indent=1)
        return name, [sys.executable, os.path.abspath(__file__), "--task", path]

    def mtf_train(self, name, configuration, *arguments):
        return name, [
            self.options.mtf_train, configuration, f"run.model_dir={self.path(name)}", f"data.cache={self.path('cache')}",
            f"run.threads={self.options.threads}", f"run.seed={self.options.seed}", *arguments,
        ]  # fmt: skip

    def has(self, name):
        return os.path.exists(self.path(name, ".figures.json"))

    def run(self, *commands):
        """Runs them, options.jobs at the same time; returns the figures of each."""
        waiting = [command for command in commands if not self.has(command[0])]
        running = {}
        while waiting or running:
            while waiting and len(running) < self.options.jobs:
                self.start(*waiting.pop(0), running)
            self.wait(running)
        return [self.figures(name) for name, _ in commands]

    def start(self, name, command, running):
        shutil.rmtree(self.path(name), ignore_errors=True)  # of a call that was stopped
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.options.threads), "TOKENIZERS_PARALLELISM": "false"}
        with open(self.path(name, ".log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)
        running[process.pid] = (name, process, time.monotonic())

    def wait(self, running):
        """Until one has ended, whose figures are written."""
        pid, status, usage = os.wait3(0)
        name, process, begin = running.pop(pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            for _, other, _ in running.values():
                other.kill()
            with open(self.path(name, ".log"), encoding="utf-8") as log:
                raise SystemExit(f"{name} failed:\n{log.read()[-2000:]}")
        figures = {
            "seconds": time.monotonic() - begin, "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "memory_bytes": 1024 * usage.ru_maxrss, **self.result(name),
        }  # fmt: skip
        with open(self.path(name, ".figures.json"), "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)

    def result(self, name):
        """What the program has measured last."""
        if os.path.exists(self.path(name, ".result.json")):
            with open(self.path(name, ".result.json"), encoding="utf-8") as file:
                return json.load(file)
        if not os.path.exists(f"{self.path(name)}/evaluate.jsonl"):
            return {}
        with open(f"{self.path(name)}/evaluate.jsonl", encoding="utf-8") as file:
            last = json.loads(file.readlines()[-1])
        return {"step": last["step"], "loss": last["loss"], "accuracy": last.get("token_accuracy", last.get("accuracy"))}

    def figures(self, name):
        with open(self.path(name, ".figures.json"), encoding="utf-8") as file:
            return json.load(file)


def masked_source(path):
    return f"{{type: text, path: {path}, join: document, objective: {{type: masked_lm, mask: <extra_id_0>}}}}"


def labelled_source(path, metrics=""):
    return f"{{type: labelled_text, path: {path}, text: text, labels: label{metrics}}}"


def recipe(runs, options):
    """The figures of the recipes."""
    shared = [
        f"vars.data={options.data}", f"data.vocabulary.path={runs.path('vocabulary.model')}",
        f"vars.vocabulary_size={options.vocabulary}", f"train.batch_size={options.batch}",
    ]  # fmt: skip
    result = {}
    (result["pretrain"],) = runs.run(
        runs.mtf_train(
            "recipe_pretrain", "configs/runs/masked_lm_small.yaml", *shared, f"train.steps={options.steps}",
            f"evaluate.datasets.dev.path={runs.path('valid.txt')}", f"evaluate.every={options.steps}",
            f"checkpoint.every={options.steps}",
        )
    )  # fmt: skip
    commands = []
    for start in ("scratch", "pretrained"):
        path = runs.path("recipe_pretrain") if start == "pretrained" else "null"
        commands.append(
            runs.mtf_train(
                f"recipe_{start}", "configs/runs/shuffled_words.yaml", *shared, f"train.epochs={options.epochs}",
                f"checkpoint.init.path={path}", "checkpoint.every=0",
            )
        )  # fmt: skip
    result["scratch"], result["pretrained"] = runs.run(*commands)
    return result


def schedule(task, rate):
    part = WARM_UP[task]
    return (
        f"learning_rate=[{rate}, {{type: linear_warmup, steps_or_fraction: {part}}}, "
        f"{{type: linear_decay, steps_or_fraction: {1 - part}}}]"
    )


def bert_arguments(runs, options, task, rate):
    return [
        f"data.vocabulary={{type: sentencepiece, path: {runs.path('vocabulary.model')}, extra_ids: 1}}",
        f"data.sequence_length={LENGTH}", f"train.batch_size={options.batch}", f"vars.dropout={DROPOUT[task]}",
        f"vars.attention_dropout={DROPOUT[task]}", schedule(task, rate),
    ]  # fmt: skip


def convert(runs, options, *arguments):
    command = [f"{os.path.dirname(options.mtf_train)}/mtf-convert", *arguments]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{made.stdout}{made.stderr}")


def bert(runs, options):
    """The figures of BERT by both programs, each with its best rate, and those of all rates."""
    runs.run(initial_weights(runs, options, "bert"))
    for task in ("pretrain", "classify"):
        if not os.path.exists(runs.path(f"mtf/{task}")):
            convert(runs, options, runs.path(f"initial/bert/{task}"), runs.path(f"mtf/{task}"))
    commands = []
    for rate in options.rates:
        commands.append(bert_pretrain(runs, options, rate))
        commands.append(runs.torch(f"torch_pretrain_{rate}", "bert", "pretrain", **given(options, rate)))
    runs.run(*commands)
    result = {"bert": {}, "torch": {}}
    for program, figures in result.items():
        figures["pretrain"] = best(runs, f"{program}_pretrain", options.rates, "loss", min)
    ours = result["bert"]["pretrain"]
    exported = runs.path(f"exported_{ours['rate']}")
    if not os.path.exists(exported):
        convert(runs, options, runs.path(f"bert_pretrain_{ours['rate']}"), exported, "--to", "hf-bert")
    (measured,) = runs.run(runs.torch("measured", "bert", "measure", run=exported))
    ours["own"] = {key: ours[key] for key in ("loss", "accuracy")}
    ours.update({key: measured[key] for key in ("loss", "accuracy", "tokens")})
    commands = []
    for start in ("scratch", "pretrained"):
        for rate in options.classifier_rates:
            commands += classify_both(runs, options, start, rate, result)
    runs.run(*commands)
    for program, figures in result.items():
        for start in ("scratch", "pretrained"):
            figures[start] = best(runs, f"{program}_{start}", options.classifier_rates, "accuracy", max)
    return result


def mpnet(runs, options):
    """The figures of MPNet by PyTorch, with its best rate, and those of all rates."""
    runs.run(initial_weights(runs, options, "mpnet"))
    torch = lambda name, rate, task, **more: runs.torch(f"mpnet_{name}_{rate}", "mpnet", task, **given(options, rate), **more)
    runs.run(*(torch("pretrain", rate, "pretrain") for rate in options.rates))
    figures = {"pretrain": best(runs, "mpnet_pretrain", options.rates, "loss", min)}
    pretrained = runs.path(f"mpnet_pretrain_{figures['pretrain']['rate']}")
    commands = []
    for start, path in (("scratch", None), ("pretrained", pretrained)):
        commands += [torch(start, rate, "classify", start=path) for rate in options.classifier_rates]
    runs.run(*commands)
    for start in ("scratch", "pretrained"):
        figures[start] = best(runs, f"mpnet_{start}", options.classifier_rates, "accuracy", max)
    return figures


def initial_weights(runs, options, family):
    return runs.torch(f"initialise_{family}", family, "initialise", pieces=options.vocabulary, run=runs.path(f"initial/{family}"))


def given(options, rate):
    return {"rate": rate, "steps": options.steps, "epochs": options.epochs, "batch": options.batch}


def best(runs, name, rates, key, better):
    """The figures of the best rate, with `rate` and what all have reached."""
    figures = {rate: runs.figures(f"{name}_{rate}") for rate in rates}
    rate = better(rates, key=lambda rate: figures[rate][key])
    return {**figures[rate], "rate": rate, "all": {rate: figures[rate][key] for rate in rates}}


def bert_pretrain(runs, options, rate):
    return runs.mtf_train(
        f"bert_pretrain_{rate}", runs.path("mtf/pretrain/config.yaml"), *bert_arguments(runs, options, "pretrain", rate),
        f"data.train={masked_source(options.data + '/train.txt')}", f"train.steps={options.steps}",
        f"evaluate={{every: {options.steps}, datasets: {{dev: {masked_source(runs.path('valid.txt'))}}}}}",
        f"checkpoint.every={options.steps}",
    )  # fmt: skip


def classify_both(runs, options, start, rate, result):
    """The commands that train the classifier by both programs."""
    init, torch_start = [], None
    if start == "pretrained":
        ours, theirs = (f"{program}_pretrain_{result[program]['pretrain']['rate']}" for program in ("bert", "torch"))
        init = [f"checkpoint.init={{path: {runs.path(ours)}, exclude: [\"(pooler|classifier)/.*\"]}}"]
        torch_start = runs.path(theirs)
    valid = labelled_source(f"{options.data}/shuffled.valid.tsv", ", metrics: [loss, accuracy]")
    return [
        runs.mtf_train(
            f"bert_{start}_{rate}", runs.path("mtf/classify/config.yaml"), *bert_arguments(runs, options, "classify", rate),
            f"data.train={labelled_source(options.data + '/shuffled.train.tsv')}",
            f"train={{epochs: {options.epochs}, batch_size: {options.batch}}}",
            f"evaluate={{every: 1 epoch, datasets: {{dev: {valid}}}}}", *init, "checkpoint.every=0",
        ),
        runs.torch(f"torch_{start}_{rate}", "bert", "classify", start=torch_start, **given(options, rate)),
    ]  # fmt: skip


def check_options(runs, options):
    """What is kept in DIR was made with the same options."""
    free = ("json", "jobs", "only", "rates", "classifier_rates", "task")
    kept = {key: value for key, value in vars(options).items() if key not in free}
    path = runs.path("options.json")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            before = json.load(file)
        differ = [f"{key} {before.get(key)}" for key in kept if before.get(key) != kept[key]]
        if differ:
            raise SystemExit(f"{options.work} has figures of other options ({', '.join(differ)}): take another --work")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(kept, file, indent=1)


def prepare(runs, options):
    """The vocabulary, and the first lines of the text that was held out."""
    with open(f"{options.data}/valid.txt", encoding="utf-8", newline="\n") as source:
        lines = source.readlines()[: options.valid_lines]
    with open(runs.path("valid.txt"), "w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)
    if not os.path.exists(runs.path("vocabulary.model")):
        mtf_vocab = f"{os.path.dirname(options.mtf_train)}/mtf-vocab"
        command = [
            mtf_vocab, "--size", str(options.vocabulary), "--output", runs.path("vocabulary.model"),
            f"{options.data}/train.txt",
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def print_table(result, options):
    names = {
        "recipe": "mtf-train, the recipe", "mpnet": "transformers, MPNet", "bert": "mtf-train, BERT",
        "torch": "transformers, BERT",
    }  # fmt: skip
    columns = [name for name in names if name in result]
    rows = {
        "masked LM: loss": ("pretrain", "loss", "{:.3f}", 1),
        "masked LM: accuracy": ("pretrain", "accuracy", "{:.1f} %", 100),
        "masked LM: CPU seconds": ("pretrain", "cpu_seconds", "{:.0f}", 1),
        "masked LM: seconds": ("pretrain", "seconds", "{:.0f}", 1),
        "masked LM: largest memory": ("pretrain", "memory_bytes", "{:.0f} MB", 1e-6),
        "classifier from initial values: accuracy": ("scratch", "accuracy", "{:.1f} %", 100),
        "classifier from the masked LM: accuracy": ("pretrained", "accuracy", "{:.1f} %", 100),
        "classifier: CPU seconds": ("pretrained", "cpu_seconds", "{:.0f}", 1),
        "classifier: largest memory": ("pretrained", "memory_bytes", "{:.0f} MB", 1e-6),
    }
    print(f"| {options.steps} steps, {options.epochs} epochs | " + " | ".join(names[c] for c in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for row, (run, key, form, factor) in rows.items():
        print(f"| {row} | " + " | ".join(form.format(factor * result[c][run][key]) for c in columns) + " |")
    if "bert" in result:
        own = result["bert"]["pretrain"]["own"]
        print(f"mtf-train's own evaluation of its BERT: loss {own['loss']:.3f}, accuracy {100 * own['accuracy']:.1f} %")
    for program in ("mpnet", "bert", "torch"):
        if program in result:
            rates = {run: figures["all"] for run, figures in result[program].items()}
            print(f"{names[program]}, by learning rate: {json.dumps(rates)}")


def numbers(text):
    return [float(number) for number in text.split(",")]


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mtf_train", nargs="?", default="build/bin/mtf-train")
    parser.add_argument("--steps", type=int, default=3000, help="of the masked language models")
    parser.add_argument("--epochs", type=int, default=3, help="of the classifiers")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rates", type=numbers, default=[0.0005, 0.001, 0.002], help="of the masked language models in PyTorch and in BERT's form")
    parser.add_argument("--classifier-rates", type=numbers, default=[0.0002, 0.0005, 0.001], help="of its classifiers")
    parser.add_argument("--jobs", type=int, default=2, help="programs that run at the same time")
    parser.add_argument("--only", type=lambda text: text.split(","), default=["recipe", "mpnet", "bert"])
    parser.add_argument("--vocabulary", type=int, default=4000, help="pieces")
    parser.add_argument("--valid-lines", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", default="corpora/english")
    parser.add_argument("--work", default="build/encoders_vs_torch")
    parser.add_argument("--json", help="a file for all figures")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for path in ("mtf_train", "data", "work"):
        setattr(options, path, os.path.abspath(getattr(options, path)))
    return options


def main():
    options = read_options()
    if options.task:
        return run_task(options.task)
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    os.makedirs(f"{options.work}/mtf", exist_ok=True)
    runs = Runs(options)
    check_options(runs, options)
    prepare(runs, options)
    result = {}
    if "recipe" in options.only:
        result["recipe"] = recipe(runs, options)
    if "mpnet" in options.only:
        result["mpnet"] = mpnet(runs, options)
    if "bert" in options.only:
        result.update(bert(runs, options))
    print_table(result, options)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    return None


main()

"""Masked language models of English and classifiers that start from them, by mtf-train and by PyTorch (transformers, eager).

`recipe` runs configs/runs/masked_lm_small.yaml and shuffled_words.yaml with these numbers of steps, epochs and rows. `mpnet`
trains MPNetForMaskedLM and MPNetForSequenceClassification, of the same size, by PyTorch: the encoder of transformers that has
what the recipe has, an attention bias for the distance of two tokens. `bert` trains BertForMaskedLM and
BertForSequenceClassification of the same size by both programs: mtf-train begins with the initial weights of PyTorch
(mtf-convert), and its masked language model is taken back to transformers, which measures both on the same hidden tokens. All
have the same texts, vocabulary (SentencePiece, trained on them), number of steps, size of a batch, and AdamW (weight decay
0.01 but for norms and biases, gradients clipped to a norm of 1, a warm-up, then a line to 0). Both programs try all rates,
and each keeps its best: by the loss of the text held out, and by the accuracy of the sentences held out.

PyTorch has the texts as transformers' run_mlm.py has them, cut into rows without regard to documents, and computes logits of
hidden tokens alone, which BertForMaskedLM itself does not: it would take more time. Batches of its classifier are as long as
their longest sentence.

--jobs programs run at the same time, mtf-train beside PyTorch, so that a busy machine slows both. CPU seconds and the largest
memory are those of whole programs (with reading texts, evaluations, and for PyTorch imports). Needs what
tools/corpora/build.sh english and tools/corpora/build_shuffled.py make. The directory of --work keeps what is done: a second
call goes on.
"""

import json
import os
import shutil
import subprocess
import time

from harness.commands import run as run_command
from peers.encoders_recipe import DROPOUT, LENGTH, WARM_UP

SUMMARY = "quality and cost of masked language models and classifiers: transformers"
PROGRAMS = ("mtf-train", "mtf-vocab", "mtf-convert")
PEERS = ("recipe", "mpnet", "bert")
ALONE = False
QUICK = {"steps": 4, "epochs": 1, "rates": [0.001], "classifier_rates": [0.0005], "valid_lines": 20, "peers": ["bert"]}
NAMES = {
    "recipe": "mtf-train, the recipe",
    "mpnet": "transformers, MPNet",
    "bert": "mtf-train, BERT",
    "torch": "transformers, BERT",
}
ROWS = {
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


def add_arguments(parser):
    rates = lambda text: [float(number) for number in text.split(",")]
    parser.add_argument("--steps", type=int, default=3000, help="of the masked language models")
    parser.add_argument("--epochs", type=int, default=3, help="of the classifiers")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument(
        "--rates", type=rates, default=[0.0005, 0.001, 0.002], help="of the masked language models in PyTorch and in BERT's form"
    )
    parser.add_argument("--classifier-rates", type=rates, default=[0.0002, 0.0005, 0.001], help="of its classifiers")
    parser.add_argument("--jobs", type=int, default=2, help="programs that run at the same time")
    parser.add_argument("--vocabulary", type=int, default=4000, help="pieces")
    parser.add_argument("--valid-lines", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=os.path.abspath, default="corpora/english")


class Runs:
    """Programs that run, and what they have cost. A name whose figures are kept is not run again."""

    def __init__(self, session):
        self.session, self.options, (self.threads,) = session, session.options, session.options.threads

    def path(self, name, suffix=""):
        return self.session.path(name + suffix)

    def torch(self, name, family, task, **more):
        """The command that does a task in PyTorch."""
        description = {
            "task": task,
            "family": family,
            "initial": self.path(f"initial/{family}"),
            "work": self.session.work,
            "data": self.options.data,
            "seed": self.options.seed,
            "threads": self.threads,
            "vocabulary": self.path("vocabulary.model"),
            "run": self.path(name),
            **more,
        }
        path = self.path(name, ".task.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(description, file, indent=1)
        return name, self.session.peer("peers", "torch_encoders.py", path)

    def mtf_train(self, name, configuration, *arguments):
        return name, [
            self.options.mtf_train, configuration, f"run.model_dir={self.path(name)}", f"data.cache={self.path('cache')}",
            f"run.threads={self.threads}", f"run.seed={self.options.seed}", *arguments,
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
        shutil.rmtree(self.path(name), ignore_errors=True)  # a call that was stopped has left it
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads), "TOKENIZERS_PARALLELISM": "false"}
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
            "recipe_pretrain", runs.session.config("runs/masked_lm_small.yaml"), *shared, f"train.steps={options.steps}",
            f"evaluate.datasets.dev.path={runs.path('valid.txt')}", f"evaluate.every={options.steps}",
            f"checkpoint.every={options.steps}",
        )
    )  # fmt: skip
    commands = []
    for start in ("scratch", "pretrained"):
        path = runs.path("recipe_pretrain") if start == "pretrained" else "null"
        commands.append(
            runs.mtf_train(
                f"recipe_{start}", runs.session.config("runs/shuffled_words.yaml"), *shared, f"train.epochs={options.epochs}",
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


def convert(runs, *arguments):
    run_command([runs.session.program("mtf-convert"), *arguments], 1)


def bert(runs, options):
    """The figures of BERT by both programs, each with its best rate, and those of all rates."""
    runs.run(initial_weights(runs, options, "bert"))
    for task in ("pretrain", "classify"):
        if not os.path.exists(runs.path(f"mtf/{task}")):
            convert(runs, runs.path(f"initial/bert/{task}"), runs.path(f"mtf/{task}"))
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
        convert(runs, runs.path(f"bert_pretrain_{ours['rate']}"), exported, "--to", "hf-bert")
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
        init = [f'checkpoint.init={{path: {runs.path(ours)}, exclude: ["(pooler|classifier)/.*"]}}']
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
    """What is kept in the directory was made with the same options."""
    free = ("commit", "json", "jobs", "peers", "quick", "rates", "classifier_rates", "recipe", "rounds", "seconds")
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
    os.makedirs(runs.path("mtf"), exist_ok=True)
    with open(f"{options.data}/valid.txt", encoding="utf-8", newline="\n") as source:
        lines = source.readlines()[: options.valid_lines]
    with open(runs.path("valid.txt"), "w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)
    if not os.path.exists(runs.path("vocabulary.model")):
        size, output = str(options.vocabulary), runs.path("vocabulary.model")
        run_command([runs.session.program("mtf-vocab"), "--size", size, "--output", output, f"{options.data}/train.txt"], 1)


def print_table(session, result):
    columns = [name for name in NAMES if name in result]
    title = f"{session.options.steps} steps, {session.options.epochs} epochs"
    table = session.table(title, "", *(NAMES[name] for name in columns))
    for row, (part, key, form, factor) in ROWS.items():
        table.row(row, *(form.format(factor * result[name][part][key]) for name in columns))
    if "bert" in result:
        own = result["bert"]["pretrain"]["own"]
        print(f"\nmtf-train's own evaluation of its BERT: loss {own['loss']:.3f}, accuracy {100 * own['accuracy']:.1f} %")
    for program in ("mpnet", "bert", "torch"):
        if program in result:
            rates = {part: figures["all"] for part, figures in result[program].items()}
            print(f"{NAMES[program]}, by learning rate: {json.dumps(rates)}")


def run(session):
    options = session.options
    if len(options.threads) != 1:
        raise SystemExit("--threads: one number")
    runs = Runs(session)
    check_options(runs, options)
    prepare(runs, options)
    result = {}
    if "recipe" in options.peers:
        result["recipe"] = recipe(runs, options)
    if "mpnet" in options.peers:
        result["mpnet"] = mpnet(runs, options)
    if "bert" in options.peers:
        result.update(bert(runs, options))
    print_table(session, result)

"""Seconds of one core from a file of text to the packed store of tokens (mtf-train), and for the `encode` of SentencePiece
alone (Python): the same texts and the same vocabulary, unigram of 4,000 pieces.

The texts are the English side of DATA, several times. mtf-train's seconds are those of a run of one step that makes the
store, less those of a run that finds it. Ratios are SentencePiece / mtf-train, medians of the rounds' own.
"""

import random
import shutil
import statistics

from comparisons.translation_corpus import find
from harness.commands import alternate, median_ratio, run as run_command
from harness.workers import Worker

SUMMARY = "reading texts into tokens: SentencePiece"
PROGRAMS = ("mtf-train", "mtf-vocab")
PEERS = ("sentencepiece",)
ALONE = True
QUICK = {"words": 20000, "pieces": 600, "copies": 1, "rounds": 1}
CONFIG = """
data:
  train: {{type: text, path: text.txt}}
  vocabulary: {{type: sentencepiece, path: vocabulary.model, size: {pieces}}}
  sequence_length: 128
  cache: cache
model:
  type: lm
  num_layers: 1
  d_model: 64
  max_length: 128
  block: [SelfAttention, DenseReluDense]
  layer_defaults: {{SelfAttention: {{num_heads: 2, key_value_size: 32}}, DenseReluDense: {{hidden_size: 64}}}}
optimizer: sgd
learning_rate: 0
train: {{steps: 1, batch_size: 2}}
checkpoint: {{every: 0}}
"""


def add_arguments(parser):
    parser.add_argument("--corpus", default="corpora/ende", help="as tools/corpora/build.sh makes it")
    parser.add_argument("--copies", type=int, default=8, help="of its sentences")
    parser.add_argument("--words", type=int, default=0, help="so many made-up words instead of a corpus")
    parser.add_argument("--pieces", type=int, default=4000)


def write_words(path, count):
    """Lines of words of one to nine letters, some of them frequent."""
    draw = random.Random(1)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(1, 9))) for _ in range(2000)]
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(count // 10):
            file.write(" ".join(draw.choices(words, weights=[1 / (rank + 1) for rank in range(2000)], k=10)) + "\n")


def write_texts(session):
    """Returns the number of bytes."""
    options, original, path = session.options, session.path("original.txt"), session.path("text.txt")
    if options.words:
        write_words(original, options.words)
    else:
        shutil.copy(find(options.corpus, "train", "en"), original)
    run_command(
        [session.program("mtf-vocab"), "--size", str(options.pieces), "--output", session.path("vocabulary.model"), original], 1
    )
    with open(original, "rb") as file:
        text = file.read() * options.copies
    with open(path, "wb") as file:
        file.write(text)
    return len(text)


def read_ours(session):
    """The Cost of making the store."""
    shutil.rmtree(session.path("cache"), ignore_errors=True)
    costs = [session.mtf_train("model.yaml", f"run.model_dir={session.fresh('run')}") for _ in range(2)]
    return costs[0] - costs[1]


def run(session):
    options = session.options
    size = write_texts(session)
    session.write("model.yaml", CONFIG.format(pieces=options.pieces))
    title = f"{size / 1e6:.1f} MB, {options.rounds} rounds in turns, one thread"
    table = session.table(title, "program", "CPU seconds", "ratio", "MB per CPU second", "million tokens")
    calls = {"mtf-train": lambda: read_ours(session)}
    tokens = ""
    if "sentencepiece" in options.peers:
        command = session.peer("peers", "sentencepiece_tokens.py", session.path("vocabulary.model"), session.path("text.txt"))
        with Worker("SentencePiece", command, 1) as worker:
            calls["SentencePiece"] = lambda: worker.ask(what="encode")[1]
            tokens = f"{worker.ask(what='encode')[0] / 1e6:.1f}"
            costs = alternate(calls, options.rounds)
    else:
        costs = alternate(calls, options.rounds)
    seconds = {name: [cost.cpu for cost in rounds] for name, rounds in costs.items()}
    for name, rounds in seconds.items():
        ratio = "" if name == "mtf-train" else f"{median_ratio(seconds['mtf-train'], rounds):.2f}"
        median = statistics.median(rounds)
        table.row(name, f"{median:.2f}", ratio, f"{size / 1e6 / median:.0f}", tokens)

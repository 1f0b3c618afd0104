"""English to German from text to text by mtf-train, Marian (pymarian) and CTranslate2, all with the weights of one model,
float32.

comparisons/translation_models.py says what the model is; mtf-train trains it on DATA (once, if --work keeps it). The first
lines of the test set are translated with beam 4, in batches of 64 lines by length. mtf-train's length penalty is ((5 + n) /
6)^0.6, that of the others n^0.6; texts end at twice the length of their line in mtf-train, of the batch's longest line in the
others. The time of a run on one line, which is start-up, is subtracted. Tokens are those of the written texts, encoded anew,
each with its end of sequence. Ratios are mtf-train / the program, medians of the rounds' own.
"""

import os
import statistics

from comparisons import translation_models
from comparisons.translation_corpus import prepare, read_lines, write_lines
from harness.commands import alternate, median_ratio, run as run_command

SUMMARY = "translation of a test set: Marian, CTranslate2"
PROGRAMS = ("mtf-train", "mtf-vocab", "mtf-convert", "mtf-bleu")
PEERS = ("ctranslate2", "marian")
ALONE = True
QUICK = {"lines": 20, "model_seconds": 3, "rounds": 1}
NAMES = {"ours": "mtf-train", "ctranslate2": "CTranslate2", "marian": "Marian"}
BEAM, BATCH, LENGTH_PENALTY, LENGTH_FACTOR = 4, 64, 0.6, 2


def add_arguments(parser):
    parser.add_argument(
        "--data", default="corpora/ende", help="directory of train.en-de.* and test.en-de.*, see tools/corpora/build.sh"
    )
    parser.add_argument("--model-seconds", type=int, default=180, help="of training of the model that is decoded with")
    parser.add_argument("--lines", type=int, default=1000, help="of the test set")


def our_command(session, forms, vocabulary, threads, source, output):
    return [
        session.options.mtf_train, os.path.join(forms.ours, "config.yaml"), f"run.model_dir={forms.ours}", "run.mode=infer",
        f"run.threads={threads}", f"infer.input={source}", f"infer.output={output}", "infer.method=beam",
        f"infer.beam_size={BEAM}", f"infer.batch_size={BATCH}", f"infer.length_penalty={LENGTH_PENALTY}",
        f"infer.max_length={{times: {LENGTH_FACTOR}, plus: 0}}",
    ]  # fmt: skip


def marian_command(session, forms, vocabulary, threads, source, output):
    return [
        translation_models.marian(), "decode", "-m", forms.marian, "-v", vocabulary.marian_path, vocabulary.marian_path,
        "-i", source, "-o", output, "--quiet", f"--cpu-threads={threads}", f"--beam-size={BEAM}",
        f"--normalize={LENGTH_PENALTY}", f"--mini-batch={BATCH}", "--maxi-batch=1000", "--maxi-batch-sort=src",
        f"--max-length-factor={LENGTH_FACTOR}",
    ]  # fmt: skip


def ctranslate2_command(session, forms, vocabulary, threads, source, output):
    return session.peer(
        "peers", "ctranslate2_translation.py", forms.ctranslate2, vocabulary.path, source, output, f"--threads={threads}",
        f"--beam={BEAM}", f"--batch={BATCH}", f"--length-penalty={LENGTH_PENALTY}", f"--length-factor={LENGTH_FACTOR}",
    )  # fmt: skip


COMMANDS = {"ours": our_command, "marian": marian_command, "ctranslate2": ctranslate2_command}


def measure(session, forms, vocabulary, corpus, threads):
    """The Costs of all lines less one line, by program."""

    def cost(name):
        costs = []
        for source, output in ((corpus.path("test.en"), f"test.{name}"), (session.path("one.en"), "one.de")):
            command = COMMANDS[name](session, forms, vocabulary, threads, source, session.path(output))
            costs.append(run_command(command, threads, translation_models.ONE_THREAD_LIBRARIES))
        return costs[0] - costs[1]

    write_lines(session.path("one.en"), read_lines(corpus.path("test.en"))[:1])
    calls = {name: lambda name=name: cost(name) for name in ("ours", *session.options.peers)}
    return alternate(calls, session.options.rounds)


def run(session):
    options = session.options
    corpus, vocabulary = prepare(session, options.lines)
    forms = translation_models.make(session, corpus, vocabulary, options.model_seconds)
    title = f"{corpus.pairs:,} pairs of training, {options.lines} lines, beam {BEAM}, {options.rounds} rounds in turns"
    columns = [
        "tokens/s",
        "ratio",
        "tokens per CPU second",
        "ratio",
        "lines/s",
        "peak memory",
        "tokens of a line",
        "BLEU",
        "same lines as ours",
    ]
    table = session.table(title, "program", "threads", *columns)
    for threads in options.threads:
        costs = measure(session, forms, vocabulary, corpus, threads)
        ours = read_lines(session.path("test.ours"))
        counts = {name: sum(len(ids) + 1 for ids in vocabulary.encode(session.path(f"test.{name}"))) for name in costs}
        for name, rounds in costs.items():
            cells = []
            for what in ("wall", "cpu"):
                mine, theirs = ([getattr(cost, what) / counts[who] for cost in costs[who]] for who in ("ours", name))
                cells += [f"{1 / statistics.median(theirs):,.0f}", f"{median_ratio(mine, theirs):.2f}" if name != "ours" else ""]
            lines = len(ours) / statistics.median(cost.wall for cost in rounds)
            output = session.path(f"test.{name}")
            same = statistics.mean(a == b for a, b in zip(ours, read_lines(output), strict=True))
            score = translation_models.bleu(session, corpus.path("test.de"), output)
            peak = max(cost.peak for cost in rounds)
            cells += [f"{lines:.0f}", f"{peak / 1e6:.0f} MB", f"{counts[name] / len(ours):.1f}", f"{score:.1f}", f"{same:.1%}"]
            table.row(NAMES[name], threads, *cells)

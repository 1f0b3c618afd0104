"""A small translation model trained and decoded by mtf-train, Marian, PyTorch and CTranslate2, in turns."""

import argparse
import dataclasses
import os
import signal
import sys

import corpus as corpora


@dataclasses.dataclass
class Programs:
    mtf_train: str
    mtf_vocab: str
    mtf_convert: str
    mtf_bleu: str
    pymarian: str


def programs_of(mtf_train):
    here = os.path.dirname(os.path.abspath(mtf_train))
    ours = [os.path.join(here, name) for name in ("mtf-train", "mtf-vocab", "mtf-convert", "mtf-bleu")]
    for path in ours:
        if not os.path.exists(path):
            raise SystemExit(f"{path} is not there; tools/build.sh makes it")
    return Programs(
        os.path.abspath(mtf_train), *ours[1:], os.path.join(os.path.dirname(sys.executable), "pymarian")
    )


def compare_training(corpus, vocabulary, programs, options):
    import training

    start = training.starters(
        corpus,
        vocabulary,
        options.work,
        programs.mtf_train,
        programs.pymarian,
        options.threads,
        options.tokens,
    )
    print(
        f"training: {options.threads} threads, batches of about {options.tokens} target tokens, "
        f"{options.rounds} rounds of {options.seconds} s each",
        flush=True,
    )
    training.print_rates(*training.compare(start, options.rounds, options.seconds))


def compare_decoding(corpus, vocabulary, programs, options):
    import decoding
    import model

    forms = model.make(corpus, vocabulary, options.work, programs, options.threads, options.model_seconds)
    print(
        f"decoding: {options.threads} threads, {options.lines} lines, beam {decoding.BEAM}, "
        f"batches of {decoding.BATCH}, {options.rounds} rounds",
        flush=True,
    )
    competitors = decoding.decoders(forms, vocabulary, options.work, programs, options.threads)
    decoding.compare(competitors, corpus.path("test.en"), options.work, options.rounds)
    decoding.print_rates(competitors, vocabulary, programs.mtf_bleu, corpus.path("test.de"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["train", "decode", "all"], nargs="?", default="all")
    parser.add_argument("--mtf-train", default="build/bin/mtf-train")
    parser.add_argument(
        "--data", default="corpora/ende", help="directory of train.en-de.en, train.en-de.de and of test.en-de.*"
    )
    parser.add_argument(
        "--work",
        default=os.path.expanduser("~/.cache/mtf-train/translation_vs_peers"),
        help="vocabulary, models, logs",
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=2048, help="target tokens of a batch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30, help="of training by each program in each round")
    parser.add_argument(
        "--model-seconds", type=int, default=180, help="of training of the model that is decoded with"
    )
    parser.add_argument("--lines", type=int, default=1000, help="of the test set that are translated")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the programs that are stopped end too
    programs = programs_of(options.mtf_train)
    options.work = os.path.abspath(options.work)
    corpus, vocabulary = corpora.prepare(
        options.data, os.path.join(options.work, "corpus"), programs.mtf_vocab, options.lines
    )
    print(f"{corpus.pairs:,} pairs, {corpus.target_tokens:,} target tokens", flush=True)
    if options.what != "decode":
        compare_training(corpus, vocabulary, programs, options)
    if options.what != "train":
        compare_decoding(corpus, vocabulary, programs, options)


main()

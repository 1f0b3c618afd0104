"""The corpus that all programs of `bench.py translation` and `translation-training` read: one vocabulary, and pairs that none
of them leaves out."""

import dataclasses
import json
import os
import subprocess

VOCABULARY = 4000
LONGEST = 100  # tokens of a text, its end of sequence included
LARGEST_RATIO = 4


@dataclasses.dataclass
class Corpus:
    directory: str
    pairs: int
    source_tokens: int
    target_tokens: int  # both with the end of sequence of each text

    def path(self, name):
        return os.path.join(self.directory, name)


class Vocabulary:
    """SentencePiece by mtf-vocab; FILE.spm, the name by which Marian knows the format, is the same file."""

    def __init__(self, program, path):
        self.program, self.path, self.marian_path = program, path, path.removesuffix(".model") + ".spm"

    def train(self, texts):
        subprocess.run(
            [self.program, "--size", str(VOCABULARY), "--output", self.path, *texts], check=True, stderr=subprocess.DEVNULL
        )
        with open(self.path, "rb") as model, open(self.marian_path, "wb") as copy:
            copy.write(model.read())

    def encode(self, text):
        """Ids of each line, without the end of sequence."""
        with open(text, encoding="utf-8") as file:
            done = subprocess.run([self.program, "--encode", self.path], stdin=file, check=True, capture_output=True, text=True)
        return [line.split() for line in done.stdout.splitlines()]


def find(data, split, language):
    for name in (f"{split}.en-de.{language}", f"{split}.{language}"):
        if os.path.exists(os.path.join(data, name)):
            return os.path.join(data, name)
    raise SystemExit(f"{data} has no {split}.en-de.{language}; tools/corpora/build.sh makes the corpus")


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return file.read().split("\n")[:-1]


def write_lines(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def is_kept(source, target):
    lengths = len(source) + 1, len(target) + 1
    return min(lengths) > 1 and max(lengths) <= LONGEST and max(lengths) <= LARGEST_RATIO * min(lengths)


def keep_pairs(vocabulary, texts, directory, split, most=None):
    """Writes the texts and ids of the pairs that are kept; how many, and their tokens on both sides."""
    lines = [read_lines(text) for text in texts]
    ids = [vocabulary.encode(text) for text in texts]
    kept = [i for i in range(len(ids[0])) if is_kept(ids[0][i], ids[1][i])][:most]
    for language, side, numbers in zip(("en", "de"), lines, ids):
        write_lines(os.path.join(directory, f"{split}.{language}"), [side[i] for i in kept])
        write_lines(os.path.join(directory, f"{split}.{language}.ids"), [" ".join(numbers[i]) for i in kept])
    return [len(kept)] + [sum(len(side[i]) + 1 for i in kept) for side in ids]


def prepare(session, test_lines):
    """The corpus in the directory of the session, made from --data if it is not there yet; the test set anew for another size."""
    data, directory = session.options.data, session.path("corpus")
    os.makedirs(directory, exist_ok=True)
    vocabulary = Vocabulary(session.program("mtf-vocab"), os.path.join(directory, "vocabulary.model"))
    summary = os.path.join(directory, "corpus.json")
    if not os.path.exists(summary):
        texts = [find(data, "train", language) for language in ("en", "de")]
        vocabulary.train(texts)
        counts = keep_pairs(vocabulary, texts, directory, "train")
        with open(summary, "w", encoding="utf-8") as file:
            json.dump(counts, file)
    keep_pairs(vocabulary, [find(data, "test", language) for language in ("en", "de")], directory, "test", test_lines)
    with open(summary, encoding="utf-8") as file:
        return Corpus(directory, *json.load(file)), vocabulary

#!/usr/bin/env python3
"""Sentences of a corpus, some of whose words have changed places: a task that needs no labels of people.

    build_shuffled.py CORPUS [--train 4000] [--valid 1000]

CORPUS/{train,valid}.txt: one sentence a line. CORPUS/shuffled.{train,valid}.tsv: columns text and label; of half of the sentences a
run of four words is shuffled. The result depends on the texts alone.
"""
import argparse
import os
import random

SHORTEST, LONGEST, RUN = 6, 40, 4  # words


def shuffled(words, generator):
    """The words, a random run of which stands in another order."""
    begin = generator.randrange(len(words) - RUN + 1)
    run = words[begin:begin + RUN]
    while run == words[begin:begin + RUN]:
        generator.shuffle(run)
    return words[:begin] + run + words[begin + RUN:]


def examples(path, count):
    """(text, label)"""
    generator = random.Random(path.rsplit("/", 1)[-1])
    with open(path, encoding="utf-8") as file:
        sentences = [line.split() for line in file]
    sentences = [words for words in sentences if SHORTEST <= len(words) <= LONGEST and len(set(words)) > SHORTEST // 2]
    generator.shuffle(sentences)
    for i, words in enumerate(sentences[:count]):
        runs = range(len(words) - RUN + 1)
        if i % 2 and all(len(set(words[at:at + RUN])) > 1 for at in runs):
            yield " ".join(shuffled(words, generator)), "shuffled"
        else:
            yield " ".join(words), "as_written"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", help="directory of train.txt and valid.txt")
    parser.add_argument("--train", type=int, default=4000, help="examples for training")
    parser.add_argument("--valid", type=int, default=1000, help="examples for evaluation")
    arguments = parser.parse_args()
    for part, count in (("train", arguments.train), ("valid", arguments.valid)):
        with open(os.path.join(arguments.corpus, f"shuffled.{part}.tsv"), "w", encoding="utf-8") as file:
            file.write("text\tlabel\n")
            file.writelines(f"{text}\t{label}\n" for text, label in examples(os.path.join(arguments.corpus, part + ".txt"), count))


if __name__ == "__main__":
    main()

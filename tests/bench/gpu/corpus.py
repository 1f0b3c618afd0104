"""Texts of made-up words with ids that are known without a tokenizer: a vocabulary file in tensor2tensor's form, and
lines that fill rows exactly. The next word often follows from the one before, and some words are frequent, so that
losses fall from the first steps on."""

import array
import itertools
import random

END = 1  # the id that ends a text; 0 is padding
FIRST_WORD = 2
CHARACTERS = "\\_u;0123456789w"  # what the file must have besides whole words: escapes, and the letters of words


def word(number):
    return f"w{number:05d}"


def count_words(size):
    return size - FIRST_WORD - len(CHARACTERS)


def write_vocabulary(path, size):
    """The id of a subword is the number of its line; words come before characters."""
    subwords = ["<pad>_", "<EOS>_", *(word(n) + "_" for n in range(count_words(size))), *CHARACTERS]
    assert len(subwords) == size
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"'{subword}'\n" for subword in subwords)


def make_ids(rows, length, vocabulary, seed):
    """int32 [rows, length], the last of each row END. The rank of a word decides how frequent it is (Zipf's law)."""
    generator = random.Random(seed)
    words = count_words(vocabulary)
    frequencies = list(itertools.accumulate(1 / (rank + 10) for rank in range(words)))
    ids = array.array("i")
    for _ in range(rows):
        drawn = generator.choices(range(words), cum_weights=frequencies, k=length - 1)
        follows = generator.choices((True, False), k=length - 1)
        for i in range(1, length - 1):
            if follows[i]:
                drawn[i] = (drawn[i - 1] * 7 + 3) % words
        ids.extend(FIRST_WORD + number for number in drawn)
        ids.append(END)
    return ids


def write_text(path, ids, length):
    with open(path, "w", encoding="utf-8") as file:
        for begin in range(0, len(ids), length):
            file.write(" ".join(word(i - FIRST_WORD) for i in ids[begin : begin + length - 1]) + "\n")

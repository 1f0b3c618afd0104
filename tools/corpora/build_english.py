#!/usr/bin/env python3
"""A corpus of English from the Debian packages that fetch.sh has unpacked.

    build_english.py PACKAGES OUT

OUT/{train,valid,test}.txt: one sentence a line, a blank line between documents; OUT/counts.json. The split goes by document; no
sentence occurs twice (case, digits and punctuation put aside). The result depends on the versions of the packages alone.
"""
import argparse
import collections
import glob
import os

import splits
from blocks import dictd_blocks, fortune_blocks, html_blocks, mallard_blocks, pod_blocks, rst_blocks
from filters import is_english_sentence
from man_pages import man_blocks
from texts import clean, same_but_for_details, sentences, stable_hash

SOURCES = [  # name, reader, files; a sentence is kept where it is first seen
    ("fortunes", fortune_blocks, "usr/share/games/fortunes/*.u8"),
    ("debian-handbook", html_blocks, "usr/share/doc/debian-handbook/html/en-US/*.html"),
    ("debian-policy", html_blocks, "usr/share/doc/debian-policy/policy.html/**/*.html"),
    ("installation-guide", html_blocks, "usr/share/doc/installation-guide-amd64/en/*.html"),
    ("debian-reference", html_blocks, "usr/share/debian-reference/*.en.html"),
    ("gnome-help", mallard_blocks, "usr/share/help/C/**/*.page"),
    ("libreoffice-help", html_blocks, "usr/share/libreoffice/help/en-US/text/**/*.html"),
    ("gimp-help", html_blocks, "usr/share/gimp/2.0/help/en/**/*.html"),
    ("postgresql", html_blocks, "usr/share/doc/postgresql-doc-15/html/*.html"),
    ("python", html_blocks, "usr/share/doc/python3.11/html/**/*.html"),
    ("sqlite", html_blocks, "usr/share/doc/sqlite3/**/*.html"),
    ("perl", pod_blocks, "usr/share/perl/5*/pod/*.pod"),
    ("linux", rst_blocks, "usr/share/doc/linux-doc-6.1/Documentation/**/*.rst.gz"),
    ("manpages", man_blocks, "usr/share/man/man[0-9]/*.gz"),
    ("foldoc", dictd_blocks, "usr/share/dictd/foldoc.dict.dz"),
]
LONGEST_DOCUMENT = 200  # sentences; longer files make several documents
SHORTEST_DOCUMENT = 3


def new_sentences(block, seen):
    """Good sentences of a block that no block before it has had."""
    found = []
    for sentence in sentences(clean(block)):
        key = same_but_for_details(sentence)
        if is_english_sentence(sentence) and key not in seen:
            seen.add(key)
            found.append(sentence)
    return found


def documents(tree):
    """(source, document, sentences)"""
    seen = set()
    for name, reader, pattern in SOURCES:
        for path in sorted(glob.glob(os.path.join(tree, pattern), recursive=True)):
            if not os.path.isfile(path):
                continue
            lines, part = [], 0
            for _, block in reader(path):
                lines += new_sentences(block, seen)
                if len(lines) >= LONGEST_DOCUMENT:
                    yield name, f"{os.path.relpath(path, tree)}#{part}", lines
                    lines, part = [], part + 1
            if len(lines) >= SHORTEST_DOCUMENT:
                yield name, f"{os.path.relpath(path, tree)}#{part}", lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("packages", help="directory of unpacked packages")
    parser.add_argument("out", help="directory of the corpus")
    arguments = parser.parse_args()
    parts = {"train": [], "valid": [], "test": []}
    characters = collections.Counter()
    for name, document, lines in documents(arguments.packages):
        if splits.is_kept_out(document):
            continue
        characters[name] += sum(map(len, lines))
        part = {0: "valid", 1: "test"}.get(stable_hash("split:" + document) % 100, "train")
        parts[part].append((document, lines))
    os.makedirs(arguments.out, exist_ok=True)
    counts = {"characters": characters}
    for part, found in parts.items():
        found.sort(key=lambda entry: (stable_hash(entry[0]), entry[0]))
        body = "\n".join("".join(line + "\n" for line in lines) for _, lines in found)
        counts[part] = {"documents": len(found), "sentences": sum(len(lines) for _, lines in found),
                        **splits.write(os.path.join(arguments.out, part + ".txt"), body)}
    splits.write_counts(arguments.out, counts)


if __name__ == "__main__":
    main()

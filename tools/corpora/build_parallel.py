#!/usr/bin/env python3
"""A corpus of English with its German or French translation, from the Debian packages that fetch.sh has unpacked.

    build_parallel.py PACKAGES OUT [--language de|fr] [--dev N] [--test N]

OUT/{train,dev,test}.en-de.{en,de}: plain text, line by line; OUT/counts.json. The split goes by document: dev and test are of
documents that train has not seen, and no sentence of theirs (case, digits and punctuation put aside) occurs in train. The
result depends on the versions of the packages alone.
"""
import argparse
import collections
import gettext
import glob
import os
import re

import splits
from alignment import align_blocks, align_sentences
from blocks import html_blocks, mallard_blocks
from filters import is_translation
from man_pages import man_blocks
from texts import clean, clean_french, same_but_for_details, stable_hash

Pair = collections.namedtuple("Pair", "source document english other")


def document_files(tree, pattern, translated):
    """(document, English file, translated file) for each English file that has a translation."""
    for english in sorted(glob.glob(os.path.join(tree, pattern), recursive=True)):
        other = translated(english)
        if other != english and os.path.exists(other):
            yield os.path.relpath(english, tree), english, other


def document_sources(tree, language):
    """(name, reader, files)"""
    handbook = {"de": "de-DE", "fr": "fr-FR"}[language]

    def source(name, reader, pattern, old, new):
        return name, reader, document_files(tree, pattern, lambda path: path.replace(old, new))

    yield source("libreoffice-help", html_blocks, "usr/share/libreoffice/help/en-US/text/**/*.html",
                 "/en-US/", f"/{language}/")
    yield source("gnome-help", mallard_blocks, "usr/share/help/C/**/*.page", "/help/C/", f"/help/{language}/")
    yield source("gimp-help", html_blocks, "usr/share/gimp/2.0/help/en/**/*.html", "/help/en/", f"/help/{language}/")
    yield source("debian-handbook", html_blocks, "usr/share/doc/debian-handbook/html/en-US/*.html",
                 "/en-US/", f"/{handbook}/")
    yield source("installation-guide", html_blocks, "usr/share/doc/installation-guide-amd64/en/*.html",
                 "/en/", f"/{language}/")
    yield source("debian-reference", html_blocks, "usr/share/debian-reference/*.en.html",
                 ".en.html", f".{language}.html")
    yield source("manpages", man_blocks, "usr/share/man/man[0-9]/*.gz", "/man/man", f"/man/{language}/man")


def catalogue_name(path):
    if "wesnoth" in path:
        return "catalogue-wesnoth"
    return "catalogue-libreoffice" if "libreoffice" in path else "catalogue-other"


def message_texts(message, translation, of_game):
    """Paragraphs of a message and of its translation, without contexts, mnemonics and markup."""
    english = message.split("\x04")[-1].split("|")[-1] if "\x04" in message else message
    if of_game:
        english = english.split("^")[-1]
    paragraphs = [re.split(r"\n\s*\n|\\n\\n", text) for text in (english, translation)]
    if len(paragraphs[0]) != len(paragraphs[1]):
        paragraphs = [[english], [translation]]
    dropped = re.compile(r"</?\w+(?:\s[^<>]*)?/?>|(?<!\w)[_~&](?=\w)|~(?=\w)|\(~?_?\w\)$")
    return [(dropped.sub("", x), dropped.sub("", y)) for x, y in zip(*paragraphs)]


def catalogue_texts(tree, language):
    """Pairs of messages of the gettext catalogues. They have no running order: each counts as a document of its own."""
    for path in sorted(glob.glob(os.path.join(tree, "usr/**", language, "LC_MESSAGES/*.mo"), recursive=True)):
        with open(path, "rb") as file:
            messages = gettext.GNUTranslations(file)._catalog
        relative = os.path.relpath(path, tree)
        name = catalogue_name(relative)
        for key in sorted(messages, key=str):
            message = key[0] if isinstance(key, tuple) else key
            if not message or not isinstance(messages[key], str):
                continue
            for english, other in message_texts(message, messages[key], name == "catalogue-wesnoth"):
                yield Pair(name, f"{relative}:{stable_hash(message) % 997}", english, other)


def document_texts(tree, language):
    for name, reader, files in document_sources(tree, language):
        for document, english, other in files:
            for x, y in align_blocks(reader(english), reader(other)):
                yield Pair(name, document, x, y)


def without_number(sentence):
    """Without a bullet or the number of a list or chapter."""
    return re.sub(r"^(?:[•*–—-]|\(?\d{1,2}[.)]|\d+(?:\.\d+)+\.?)\s+", "", sentence).strip()


def sentence_pairs(tree, language):
    clean_other = clean_french if language == "fr" else clean
    for texts in (document_texts, catalogue_texts):
        for name, document, x, y in texts(tree, language):
            for english, other in align_sentences(clean(x), clean_other(y)):
                yield Pair(name, document, without_number(english), without_number(other))


def collect(tree, language):
    """Good pairs, each English sentence and each translation once; and how many were dropped for what."""
    seen, seen_other, pairs = set(), set(), []
    dropped = collections.Counter()
    for pair in sentence_pairs(tree, language):
        if not is_translation(pair.english, pair.other, language):
            dropped["filter"] += 1
            continue
        key, other_key = same_but_for_details(pair.english), same_but_for_details(pair.other)
        if key in seen or other_key in seen_other:
            dropped["duplicate"] += 1
            continue
        seen.add(key)
        seen_other.add(other_key)
        pairs.append(pair)
    return pairs, dropped


def split(pairs, sizes):
    """By documents in the order of their hashes, three candidates for each line of dev and test; then lines in hash order."""
    rest = [pair for pair in pairs if not splits.is_kept_out(pair.document)]
    rest.sort(key=lambda pair: (stable_hash("split:" + pair.document), pair.document))
    parts, begin = {}, 0

    def in_line_order(part):
        return sorted(part, key=lambda pair: stable_hash(pair.english))

    for name, size in sizes.items():
        end = begin
        while end < len(rest) and (end - begin < 3 * size or rest[end].document == rest[end - 1].document):
            end += 1
        parts[name] = in_line_order(pair for pair in rest[begin:end] if len(pair.english.split()) >= 5)[:size]
        begin = end
    parts["train"] = in_line_order(rest[begin:])
    return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("packages", help="directory of unpacked packages")
    parser.add_argument("out", help="directory of the corpus")
    parser.add_argument("--language", choices=["de", "fr"], default="de")
    parser.add_argument("--dev", type=int, default=2000, help="lines")
    parser.add_argument("--test", type=int, default=2000, help="lines")
    arguments = parser.parse_args()
    pairs, dropped = collect(arguments.packages, arguments.language)
    os.makedirs(arguments.out, exist_ok=True)
    counts = {"sources": collections.Counter(pair.source for pair in pairs), "dropped": dropped}
    for name, part in split(pairs, {"dev": arguments.dev, "test": arguments.test}).items():
        counts[name] = {"pairs": len(part), "english words": sum(len(pair.english.split()) for pair in part)}
        for side, lines in (("en", [p.english for p in part]), (arguments.language, [p.other for p in part])):
            path = os.path.join(arguments.out, f"{name}.en-{arguments.language}.{side}")
            counts[name][side] = splits.write(path, "".join(line + "\n" for line in lines))
    splits.write_counts(arguments.out, counts)


if __name__ == "__main__":
    main()

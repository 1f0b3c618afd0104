"""Compares mtf-bleu with the command line of sacreBLEU on random Unicode text, to every printed character but
for the version in the signature.

usage: compare_with_sacrebleu.py MTF_BLEU LINES [SEED [OPTION]]    (in an empty directory)
With OPTION, only reports that have it among their options: -tok, chrf, ter, ...
"""
import io
import os
import random
import re
import subprocess
import sys

import sacrebleu.sacrebleu

WORDS = ("the house of Commons isn't Straße Größe Œuvre déjà qu'il l'été naïve ΟΔΟΣ Σίσυφος İstanbul don't it's 's "
         "Привет МИР שלום नमस्ते 12 3.14 1,000 10-12 2019. $5 50% C++ a.b e.g. U.S.A. x-y 3-D -5 5- ... -- <skipped> "
         "&quot; &amp; &lt; &gt; &amp;lt; &apos; (hi) [x] {y} @user #tag http://a.b/c?d=e&f=g 論文 日本語です。 "
         "“quoted” „so“ «là» — – … • € £ ½ ² ① ٣ Ⅷ 🙂 👩‍👩‍👧 ﬁ ſ ẞ ａｂｃ，．！ ｱｲｳ ・ 、 。 《书》 ㈱ ㍿ 한국어").split()
BLANKS = [" "] * 40 + ["  ", "\t", "\u00a0", "\u3000", "\u2009", "\u2028", "\x0b", "\x1f", "\x85", "\r", "\u200b", "\ufeff"]


def any_character(rng):
    while True:
        code = rng.choice([rng.randrange(0x80), rng.randrange(0x250), rng.randrange(0x3000), rng.randrange(0x10000),
                           rng.randrange(0x1d000, 0x20000), rng.randrange(0x110000)])
        if not 0xd800 <= code < 0xe000 and code != 0x0a:
            return chr(code)


def random_line(rng):
    if rng.random() < 0.03:
        return ""
    parts = []
    for _ in range(rng.choice([1, 2, 3, 5, 8, 12, 20, 30])):
        kind = rng.random()
        if kind < 0.75:
            parts.append(rng.choice(WORDS))
        elif kind < 0.9:
            parts.append("".join(any_character(rng) for _ in range(rng.randrange(1, 6))))
        else:
            parts.append(str(rng.randrange(100000)) + rng.choice([".", ",", "-", "%", ""]) + rng.choice(["7", "", "x"]))
        parts.append("" if rng.random() < 0.1 else rng.choice(BLANKS))
    if rng.random() < 0.3:
        parts.append(rng.choice([".", " .", "!", "?", " 。"]))
    return "".join(parts)


def changed(line, rng):
    """Some words are left out, replaced, repeated or moved."""
    if rng.random() < 0.1:
        return line
    words = line.split(" ")
    for _ in range(rng.randrange(1, 2 + len(words) // 3)):
        at = rng.randrange(len(words))
        kind = rng.random()
        if kind < 0.3:
            words[at] = rng.choice(WORDS)
        elif kind < 0.5:
            words.insert(at, rng.choice(words))
        elif kind < 0.8:
            end = min(len(words), at + rng.randrange(1, 5))
            moved, words = words[at:end], words[:at] + words[end:]
            to = rng.randrange(len(words) + 1)
            words[to:to] = moved
        elif len(words) > 1:
            del words[at]
        words = words or [""]
        if rng.random() < 0.1:
            words[at % len(words)] = words[at % len(words)].swapcase()
    return " ".join(words)


def write(name, lines):
    with open(name, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)


def with_sacrebleu(arguments):
    """What the command line of sacreBLEU prints, in a process that has loaded it already."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            output = os.open("theirs", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
            sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), encoding="utf-8")
            sys.argv = ["sacrebleu"] + arguments
            sacrebleu.sacrebleu.main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if status != 0:
        sys.exit(f"sacrebleu {' '.join(arguments)}: status {status}")
    with open("theirs", encoding="utf-8", newline="\n") as file:
        return file.read()


def without_version(text):
    return re.sub(r'(v(?:ersion)?"?: ?"?)(?:mtf-)?[0-9.]+', r"\1X", text)


def option_sets():
    tokenizers = ["13a", "intl", "char", "zh", "none"]
    smoothings = [["-s", "exp"], ["-s", "floor"], ["-s", "floor", "-sv", "0.37"], ["-s", "add-k"],
                  ["-s", "add-k", "-sv", "2"], ["-s", "none"]]
    for tokenizer in tokenizers:
        for smoothing in smoothings:
            yield ["-tok", tokenizer, *smoothing, "-w", "12"]
            yield ["-sl", "-tok", tokenizer, *smoothing, "-w", "12"]
    for tokenizer in tokenizers:
        yield ["-lc", "-tok", tokenizer, "-f", "text", "-sh", "-w", "4"]
        yield ["-lc", "-sl", "-tok", tokenizer, "-b", "-w", "12"]
    for chrf in ([], ["-cw", "2"], ["--chrf-whitespace"], ["--chrf-lowercase", "-cw", "1"], ["--chrf-eps-smoothing"],
                 ["-cc", "3", "-cw", "3", "--chrf-beta", "3", "--chrf-eps-smoothing", "--chrf-lowercase"]):
        yield ["-m", "chrf", *chrf, "-w", "12"]
        yield ["-sl", "-m", "chrf", *chrf, "-w", "12", "-sh"]
    ter_flags = ["--ter-case-sensitive", "--ter-asian-support", "--ter-no-punct", "--ter-normalized"]
    for chosen in range(16):
        ter = [flag for bit, flag in enumerate(ter_flags) if chosen >> bit & 1]
        yield ["-m", "ter", *ter, "-w", "12"]
        if chosen in (0, 6, 10, 14):
            yield ["-sl", "-m", "ter", *ter, "-w", "12"]
    yield ["-m", "bleu", "chrf", "ter", "-f", "text"]
    yield ["-m", "bleu", "chrf", "ter", "-f", "text", "-b"]
    yield ["-m", "ter", "bleu", "-f", "json"]
    yield ["-m", "bleu", "chrf", "ter", "-ci", "-cin", "200", "-w", "5"]
    yield ["-m", "bleu", "chrf", "ter", "-ci", "-cin", "77", "-f", "text", "-s", "floor"]
    yield ["-m", "bleu", "chrf", "-ci", "-cin", "30", "-f", "text", "-b", "--chrf-eps-smoothing", "-s", "add-k"]


def first_difference(ours, theirs):
    for number, (a, b) in enumerate(zip(ours.split("\n"), theirs.split("\n")), 1):
        if a != b:
            return f"line {number}:\n  mtf-bleu:  {a}\n  sacrebleu: {b}"
    return f"{ours.count(chr(10))} lines, not {theirs.count(chr(10))}"


def main():
    program, lines = sys.argv[1], int(sys.argv[2])
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    first = [random_line(rng) for _ in range(lines)]
    second = [changed(line, rng) if rng.random() < 0.9 else "" for line in first]
    write("ref0", first)
    write("ref1", second)
    write("out", [changed(line, rng) for line in first])
    compared = failures = 0
    for options in option_sets():
        if len(sys.argv) > 4 and sys.argv[4] not in options:
            continue
        for references in (["ref0"], ["ref0", "ref1"]):
            arguments = references + ["-i", "out"] + options
            ours = subprocess.run([program, *arguments], capture_output=True, check=True, encoding="utf-8")
            ours, theirs = without_version(ours.stdout), without_version(with_sacrebleu(arguments))
            compared += 1
            if ours != theirs:
                failures += 1
                print(f"{' '.join(arguments)}: {first_difference(ours, theirs)}")
    print(f"{compared} reports on {lines} lines of random text compared with sacreBLEU "
          f"{sacrebleu.__version__}, {failures} differ")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()

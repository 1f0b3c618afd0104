"""Compares mtf-bleu with the command line of sacreBLEU on random Unicode text, to every printed character: scores of
one system and of several, paired tests, parts of test sets, models of tokenisers, lists.

usage: compare_with_sacrebleu.py MTF_BLEU LINES [SEED [OPTION]]    (in an empty directory)
With OPTION, only reports that have it among their options: -tok, chrf, ter, ...
"""
import io
import os
import random
import subprocess
import sys

os.environ["SACREBLEU"] = os.path.abspath("sacrebleu_home")  # where it keeps models and test sets
import sacrebleu.sacrebleu
import sentencepiece
from sacrebleu.dataset import DATASETS

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


def with_sacrebleu(arguments, input_name="/dev/null"):
    """What the command line of sacreBLEU prints, in a process that has loaded it already."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            output = os.open("theirs", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(os.open(input_name, os.O_RDONLY), 0)
            sys.stdin = open(0, encoding="utf-8", closefd=False)
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


def system_option_sets():
    """For several systems."""
    yield []
    for metrics in (["bleu"], ["ter", "chrf", "bleu"]):
        yield ["-m", *metrics, "-w", "3"]
        yield ["-m", *metrics, "-f", "text", "-lc"]
        yield ["-m", *metrics, "-f", "latex", "-sh"]
        yield ["-m", *metrics, "-f", "text", "--paired-bs", "-pbsn", "60"]
        yield ["-m", *metrics, "-f", "latex", "-pbs", "-pbsn", "300", "-sh", "-w", "6"]
        yield ["-m", *metrics, "-f", "text", "--paired-ar", "-parn", "50", "-w", "2"]
        yield ["-m", *metrics, "-par", "-parn", "40"]
    yield ["--paired-bs", "--paired-bs-n", "129"]  # of chrF and TER sacreBLEU can write no JSON
    yield ["-par", "-parn", "70", "-s", "add-k", "-sv", "1.5", "-f", "text"]
    yield ["-par", "-parn", "70", "-s", "floor", "-sv", "0.3"]
    yield ["-par", "-parn", "30", "-m", "chrf", "-cw", "2", "--chrf-eps-smoothing"]


def make_models(lines):
    """A model of SentencePiece in the place of those that sacreBLEU downloads. It is one of byte pairs: of two
    segmentations to which a unigram model gives the same probability, versions of the library take different ones."""
    models = os.path.join(os.environ["SACREBLEU"], "models")
    os.makedirs(models)
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_prefix="pieces", vocab_size=700, model_type="bpe",
                                             hard_vocab_limit=False, character_coverage=0.98, minloglevel=2)
    for name in ("sacrebleu_tokenizer_spm.model", "flores200sacrebleuspm", "spbleu-1k_tokenizer_spm.model"):
        os.link("pieces.model", os.path.join(models, name))


def make_test_sets(sources, references, rng):
    """The lines as wmt21 and wmt20, as if sacreBLEU had downloaded them; ref.xml and ref.sgm for mtf-bleu."""
    def raw(name, path, text):
        directory = os.path.join(os.environ["SACREBLEU"], name, "raw")
        os.makedirs(os.path.dirname(os.path.join(directory, path)), exist_ok=True)
        for url in DATASETS[name].data:
            write(os.path.join(directory, f"{name}.{os.path.basename(url)}"), ["downloaded"])
        write(os.path.join(directory, path), text)

    xml, sgm = ['<dataset id="t">'], {"src": ["<srcset>"], "ref": ["<refset>"]}
    for begin in range(0, len(sources), 4):
        pairs = list(zip(sources, references))[begin:begin + 4]
        language, domain = rng.choice(["en", "de", "cs"]), rng.choice(["news", "social", "speech"])
        xml.append(f'<doc id="d{begin}" origlang="{language}" domain="{domain}">')
        for kind, attributes in (("src", 'lang="en"'), ("ref", 'lang="de" translator="A"')):
            xml.append(f"<{kind} {attributes}><p>")
            sgm[kind].append(f'<doc docid="d{begin}" genre="news" origlang="{language}">')
            for number, pair in enumerate(pairs, 1):
                segment = f'<seg id="{number}">{pair[kind == "ref"]}</seg>'
                xml.append(segment)
                sgm[kind].append(segment)
            xml.append(f"</p></{kind}>")
            sgm[kind].append("</doc>")
        xml.append("</doc>")
    xml.append("</dataset>")
    raw("wmt21", DATASETS["wmt21"].langpairs["en-de"][0], xml)
    write("ref.xml", xml)
    for kind, path in zip(("src", "ref"), DATASETS["wmt20"].langpairs["en-de"]):
        raw("wmt20", path, sgm[kind])
    write("ref.sgm", sgm["ref"])


def comparisons():
    """Arguments of mtf-bleu, those of sacreBLEU where they differ, and the file on standard input."""
    for references in (["ref0"], ["ref0", "ref1"]):
        for options in option_sets():
            yield references + ["-i", "out"] + options, None, "/dev/null"
        for options in system_option_sets():
            yield references + ["-i", "out", "out2", "ref1"] + options, None, "/dev/null"
    for options in ([], ["-f", "text", "-pbs", "-pbsn", "50"], ["-f", "latex", "-m", "chrf"], ["-par", "-parn", "20"]):
        yield ["ref0"] + options, None, "columns"
    for tokenizer in ("spm", "flores101", "flores200", "spBLEU-1K"):
        yield ["ref0", "-i", "out", "-tok", tokenizer, "-w", "8"], None, "/dev/null"
    yield ["ref0", "-i", "out", "out2", "-tok", "spm", "-f", "text", "-lc"], None, "/dev/null"
    yield (["ref0", "-i", "out", "-tok", "flores200", "--spm-model", "pieces.model", "-sl"],
           ["ref0", "-i", "out", "-tok", "flores200", "-sl"], "/dev/null")
    for name, file in (("wmt21", "ref.xml"), ("wmt20", "ref.sgm")):
        for options in (["--detail"], ["-d", "-m", "chrf", "bleu", "-w", "3"], ["--origlang", "de"],
                        ["--origlang", "non-en", "-f", "text", "-ci", "-cin", "20"]):
            yield [file, "-i", "plain"] + options, ["-t", name, "-l", "en-de", "-i", "plain"] + options, "/dev/null"
    yield (["ref.xml", "-i", "plain", "--subset", "s[op]"],
           ["-t", "wmt21", "-l", "en-de", "-i", "plain", "--subset", "s[op]"], "/dev/null")
    yield ["ref0", "-i", "out", "--detail"], None, "/dev/null"
    for options in ([], ["-l", "en-de"], ["-l", "ja-en"], ["-l", "xx-yy"], ["-t", "wmt14"], ["-t", "wmt17/ms"],
                    ["-t", "wmt20", "-l", "en-zh"]):
        yield ["--list"] + options, None, "/dev/null"


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
    outputs = [[changed(line, rng) for line in first] for _ in range(2)]
    write("ref0", first)
    write("ref1", second)
    write("out", outputs[0])
    write("out2", outputs[1])
    write("columns", ["\t".join(text.replace("\t", " ").replace("\r", " ").strip() or "x" for text in texts)
                      for texts in zip(*outputs, second)])
    make_models(first)
    words = ["das", "Haus", "ist", "sehr", "alt", "und", "schön."]  # without signs that XML writes in another way
    plain = [[rng.choice(words) for _ in range(9)] for _ in first]
    references = [line[:4] + [rng.choice(words)] + line[4:] for line in plain]
    make_test_sets(*([" ".join(line) for line in text] for text in (plain, references)), rng)
    write("plain", [" ".join(line) for line in plain])
    compared = failures = 0
    for arguments, theirs, input_name in comparisons():
        if len(sys.argv) > 4 and sys.argv[4] not in arguments:
            continue
        with open(input_name, "rb") as standard_input:
            ours = subprocess.run([program, *arguments], stdin=standard_input, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, check=True, encoding="utf-8").stdout
        expected = with_sacrebleu(theirs or arguments, input_name)
        compared += 1
        if ours != expected:
            failures += 1
            print(f"{' '.join(arguments)}: {first_difference(ours, expected)}")
    print(f"{compared} reports on {lines} lines of random text compared with sacreBLEU "
          f"{sacrebleu.__version__}, {failures} differ")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()

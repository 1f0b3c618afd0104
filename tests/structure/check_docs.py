"""Fails where the documents no longer fit the sources.

check_docs.py SOURCE_DIR looks at README.md, CONTRIBUTING.md, CHANGELOG.md and docs:

- a block of code whose fence names a file, as in ```cpp layers/report.cc, has lines of that file, in their order; a line
  `...` stands for lines that are left out. In a block ```diff FILE the lines that begin with a blank stand in the file.
- a path of a configuration or a script in another block exists;
- a path in backticks exists, if it begins with a folder of the sources: `layers/report.cc`, `layers/report.{h,cc}`,
  `configs/layouts/*_4.yaml`; so does the target of a link, with its heading.
- `Class::member` in backticks is a member in a file that has the class; in the pages about the sources the other
  identifiers in backticks are words of the sources, too.
"""

import glob
import os
import re
import sys

import tree

TOPS = ("engine", "data", "layers", "models", "trainer", "tools", "tests", "configs", "docs")
SUFFIXES = (".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".txt", ".cmake", ".yaml", ".json")
ABOUT_SOURCES = ("docs/architecture.md", "docs/extending.md", "docs/numerics.md", "docs/gpus.md")
FENCE = re.compile(r"^```(\w*)(?: (\S+))?$")
CODE = re.compile(r"`([^`\n]+)`")
USED = re.compile(r"(?<![\w/.$-])((?:configs|tools|tests)/[\w./*-]+\.(?:yaml|sh|py))\b")
LINK = re.compile(r"\]\(([^)\s]+)\)")
IDENTIFIER = re.compile(r"^[A-Za-z_]\w*(?:_\w+|[a-z][A-Z]\w*)(?:\(\))?$")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def pages(root):
    return sorted(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"] + [path for path, _ in tree.texts(root, ["docs"], (".md",))])


def without_comments(path, text):
    return re.sub(r"//.*", "", text) if path.endswith((".h", ".cc", ".cu", ".cuh")) else text


def sources(root):
    """The texts of all sources by path, those in C++ without their comments."""
    result = {path: without_comments(path, text) for path, text in tree.texts(root, TOPS[:-1], SUFFIXES)}
    result["CMakeLists.txt"] = read(os.path.join(root, "CMakeLists.txt"))
    return result


def blocks(text):
    """(number of the first line, language, file, lines) of each fenced block, and the text without them."""
    result, rest, block = [], [], None
    for number, line in enumerate(text.split("\n"), 1):
        fence = FENCE.match(line)
        if block is None and fence:
            block = (number + 1, fence[1], fence[2], [])
        elif block is not None and line == "```":
            result.append(block)
            block = None
        elif block is not None:
            block[3].append(line)
        rest.append("" if block is not None or line == "```" else line)
    return result, rest


def parts(language, lines):
    """The runs of lines that stand together in the file."""
    run, result = [], []
    for line in lines:
        if language == "diff" and line.startswith("+"):
            continue
        if language == "diff":
            line = line[1:]
        if line.strip() == "...":
            result.append(run)
            run = []
        else:
            run.append(line)
    return [part for part in result + [run] if part]


def missing_line(text, wanted):
    """The first line of `wanted` (runs of lines) that is not there; None: all are."""
    lines, begin = text.split("\n"), 0
    for part in wanted:
        for at in range(begin, len(lines) - len(part) + 1):
            if lines[at : at + len(part)] == part:
                begin = at + len(part)
                break
        else:
            known = set(lines[begin:])
            return next((line for line in part if line not in known), part[0])
    return None


def expand(path):
    """a.{h,cc} as a.h and a.cc."""
    found = re.search(r"\{([^{}]*)\}", path)
    if not found:
        return [path]
    return [other for word in found[1].split(",") for other in expand(path[: found.start()] + word + path[found.end() :])]


def headings(text):
    found = set()
    for line in blocks(text)[1]:
        if match := re.match(r"#+ (.*)$", line):
            found.add(re.sub(r"[^\w\- ]", "", match[1].lower()).replace(" ", "-"))
    return found


class Checker:
    def __init__(self, root):
        self.root = root
        self.sources = sources(root)
        self.words = set(re.findall(r"\w+", "\n".join(self.sources.values())))
        self.wrong = []
        self.checked = 0

    def report(self, place, message):
        self.wrong.append(f"{place}: {message}")

    def check_block(self, place, language, path, lines):
        self.checked += 1
        if not os.path.isfile(os.path.join(self.root, path)):
            return self.report(place, f"there is no file {path}")
        line = missing_line(read(os.path.join(self.root, path)), parts(language, lines))
        if line is not None:
            self.report(place, f"{path} does not have, in this order, the line: {line}")

    def check_path(self, place, code):
        self.checked += 1
        for path in expand(code):
            if not glob.glob(os.path.join(self.root, path)):
                self.report(place, f"there is no {path}")

    def check_member(self, place, owner, member):
        self.checked += 1
        define = re.compile(rf"\b(?:class|struct|enum class|namespace [\w:]*|TEST\w*\()\s*{owner}\b")
        use = re.compile(rf"\b{member}\b")
        if not any(define.search(text) and use.search(text) for text in self.sources.values()):
            self.report(place, f"no file has both {owner} and {member}")

    def check_link(self, page, place, target):
        if re.match(r"[a-z]+:", target):
            return
        self.checked += 1
        path, _, heading = target.partition("#")
        full = os.path.join(self.root, os.path.dirname(page), path) if path else os.path.join(self.root, page)
        if not os.path.exists(full):
            self.report(place, f"there is no {target}")
        elif heading and heading not in headings(read(full)):
            self.report(place, f"{path or page} has no heading #{heading}")

    def check_code(self, page, place, code):
        first = code.split("/")[0]
        if "/" in code and first in TOPS and re.match(r"^[\w./{},*-]+$", code):
            self.check_path(place, code)
        elif match := re.match(r"^(\w+)(?:::|\.)(\w+)(?:\(\))?$", code):
            if "::" in code and match[1] != "std":
                self.check_member(place, match[1], match[2])
        elif page in ABOUT_SOURCES and IDENTIFIER.match(code):
            self.checked += 1
            if code.removesuffix("()") not in self.words:
                self.report(place, f"no source has the word {code}")

    def check(self, page):
        found, rest = blocks(read(os.path.join(self.root, page)))
        for number, language, path, lines in found:
            if path:
                self.check_block(f"{page}:{number}", language, path, lines)
                continue
            for at, line in enumerate(lines, number):
                for used in USED.findall(line):
                    self.check_path(f"{page}:{at}", used)
        for number, line in enumerate(rest, 1):
            place = f"{page}:{number}"
            for target in LINK.findall(line):
                self.check_link(page, place, target)
            if not page.startswith("docs/reference/"):
                for code in CODE.findall(line):
                    self.check_code(page, place, code)


def main(root):
    checker = Checker(root)
    for page in pages(root):
        checker.check(page)
    print("\n".join(checker.wrong + [f"{checker.checked} mentions, {len(checker.wrong)} mistakes"]))
    return 1 if checker.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

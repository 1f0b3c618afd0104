"""Fails on two files of one library, or of one test program, that declare the same local name: files are compiled several at a
time, in batches that a new file moves.

check_local_names.py SOURCE_DIR: local are names in unnamed namespaces, and static ones outside classes. Functions are the same if
their parameters are; aliases may be the same. Files that CMakeLists.txt compiles alone are left out.
"""

import collections
import fnmatch
import os
import re
import sys

import tree

TOPS = ("engine", "data", "layers", "models", "trainer", "tests")
ONE_BY_ONE = ("engine/backend/cpu/", "engine/backend/cuda/", "tests/bench/", "tests/examples/", "tests/emulated_gpu/", "tests/fuzz/")
ALIAS = re.compile(r"using\s+(\w+)\s*=\s*([^;]*);")
TYPE = re.compile(r"(?:struct|class|union|enum(?: class)?)\s+(?:\[\[\w+\]\]\s*)?(\w+)\s*(?::|\{|final)")
FURTHER = re.compile(r",\s*\*?(k[A-Z]\w*)(?:\[[^]]*\])*\s*=[^=]")  # constants behind the first one of a declaration
FUNCTION = re.compile(r"[\w:<>,&*\s\[\]]*?[\s&*](\w+)\((.*)", re.DOTALL)
VARIABLE = re.compile(r"(?:const|constexpr|static|inline|thread_local|volatile)\b[^=({;]*?[\s&*](\w+)(?:\[[^]]*\])*\s*[={;]")


def library(path):
    """What is compiled together with the file, or None."""
    if path.startswith(ONE_BY_ONE) or "/" not in path:
        return None
    parts = path.split("/")
    return "/".join(parts[: 1 if parts[0] in ("data", "layers", "models") else 2])


def parameters(text):
    """The types of a function's parameters, from what follows its opening parenthesis."""
    depth, end = 1, 0
    while depth and end < len(text):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    found, depth, one = [], 0, ""
    for character in text[: end - 1] + ",":
        depth += {"<": 1, "(": 1, "[": 1, "{": 1, ">": -1, ")": -1, "]": -1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            one = one.split("=")[0].strip()
            found.append(re.sub(r"([\s&*>])\w+(\[\])?$", r"\1", one).strip())
            one = ""
        else:
            one += character
    return ", ".join(re.sub(r"\s+", " ", one) for one in found)


def declarations(text):
    """(namespace, name, what an alias stands for) of what a file declares for itself. Declarations begin at the begin of a line, as clang-format has them."""
    spaces, begun = [], ""
    for line in text.split("\n"):
        line = re.sub(r"\s*//.*", "", line) if not line.startswith("}  // namespace") else line
        if line.startswith("}  // namespace"):
            spaces.pop()
        elif opened := re.match(r"namespace\s*([\w:]*)\s*\{$", line):
            spaces.append(opened[1])
        elif begun or re.match(r"\w", line) and not line.startswith(("template", "namespace")):
            begun += line + "\n"
            if re.search(r"[;{}]$", line):
                yield from declared(spaces, begun)
                begun = ""


def declared(spaces, text):
    if "" not in spaces and not text.startswith("static "):
        return
    space = "::".join(name for name in spaces if name)
    if found := ALIAS.match(text):
        yield space, found[1], re.sub(r"\s+", " ", found[2])
    elif found := TYPE.match(text):
        yield space, found[1], None
    elif found := VARIABLE.match(text):
        yield space, found[1], None
        for name in FURTHER.findall(text):
            yield space, name, None
    elif (found := FUNCTION.match(text)) and "operator" not in text[: found.end(1)]:
        yield space, f"{found[1]}({parameters(found[2])})", None


def compiled_alone(root):
    """Patterns of the files that are in no batch."""
    patterns = []
    for folder in ("", "tests/"):
        with open(os.path.join(root, folder, "CMakeLists.txt"), encoding="utf-8") as file:
            text = file.read()
        for statement in re.findall(r"^(?:set_source_files_properties|file)\(([^)]*)", text, re.MULTILINE):
            if "SKIP_UNITY_BUILD_INCLUSION" in statement or statement.startswith("GLOB alone"):
                patterns += [folder + word for word in statement.split() if word.endswith(".cc")]
    return patterns


def main():
    root = sys.argv[1]
    alone = compiled_alone(root)
    places = collections.defaultdict(list)
    for path, text in tree.texts(root, TOPS, (".cc",)):
        group = library(path)
        if group and not any(fnmatch.fnmatch(path, pattern) for pattern in alone):
            for space, name, alias in dict.fromkeys(declarations(text)):
                places[group, space, name].append((path, alias))
    mistakes = 0
    for (_, _, name), found in sorted(places.items(), key=str):
        same_alias = found[0][1] is not None and len({alias for _, alias in found}) == 1
        if len(found) > 1 and not same_alias:
            mistakes += 1
            print(f"{name} is a local name of {' and of '.join(path for path, _ in found)}")
    print(f"{len(places)} local names, {mistakes} mistakes")
    sys.exit(1 if mistakes else 0)


if __name__ == "__main__":
    main()

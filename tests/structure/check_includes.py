"""Fails on an include against the order of folders in floors.txt, on headers that include each other, on headers that
a source file includes but does not use, and on precompiled headers of the project.

check_includes.py SOURCE_DIR: a source file may include headers of its own folder and of folders that stand
above it in the list. Two modules (a header and its source file) of different folders can therefore not need
each other, and neither can two libraries.
"""

import os
import re
import sys

import tree

SUFFIXES = (".h", ".cc", ".cu", ".cuh")
TOPS = ("engine", "data", "layers", "models", "trainer", "tools")
STANDARD_MEMBERS = set("size begin end empty front back data first second find insert at count reset value str name".split())
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def floors(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    return [line for line in lines if line and not line.startswith("#")]


def includes(root):
    """The headers that each source file includes."""
    return {path: INCLUDE.findall(text) for path, text in tree.texts(root, TOPS, SUFFIXES)}


def header_cycle(graph):
    """Headers of which each includes the next, and the last the first; empty: there are none."""
    done, path = set(), []

    def visit(header):
        if header in path:
            return path[path.index(header) :] + [header]
        if header in done or header not in graph:
            return []
        path.append(header)
        for other in graph[header]:
            if found := visit(other):
                return found
        path.pop()
        done.add(header)
        return []

    for header in graph:
        if header.endswith((".h", ".cuh")) and (found := visit(header)):
            return found
    return []


def code(text):
    """The text without comments, literals and includes."""
    literal = r"""R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+'"""
    return re.sub(r"^#include[^\n]*|//[^\n]*|" + literal, " ", text, flags=re.DOTALL | re.MULTILINE)


def declared(text):
    """The names that a header declares outside of classes; all names of one with operators or specialisations."""
    if re.search(r"\boperator\b|\btemplate\s*<\s*>", text):
        return set(re.findall(r"\w+", text))
    names = set(re.findall(r"#\s*define\s+(\w+)", text))
    for enumerators in re.findall(r"\benum\b[^{};()]*\{([^{}]*)\}", text):
        names.update(re.findall(r"\w+", enumerators))
    text = re.sub(r"^[ \t]*#(?:.*\\\n)*.*|\bnamespace\b[^{;=]*\{", " ", text, flags=re.MULTILINE)
    for inner in (r"\{[^{}]*\}", r"\([^()]*\)"):
        while (outer := re.sub(inner, "@", text)) != text:
            text = outer
    names.update(re.findall(r"\b(?:class|struct|union|enum|concept|using)\s+(\w+)", text))
    return names.union(re.findall(r"\b([A-Za-z_]\w*)\s*[@=[]", text)) - {"class", "const", "noexcept", "requires"}


def brought(graph, header):
    """The header and all that it includes, directly or not."""
    found, open_ = set(), [header]
    while open_:
        if (header := open_.pop()) not in found:
            found.add(header)
            open_ += graph.get(header, [])
    return found


def unused_headers(root):
    """(file, header) where a source file uses no name that the header, or one that only this header brings, declares, and
    no member of their classes."""
    texts = dict(tree.texts(root, (*TOPS, "tests"), SUFFIXES))
    graph = {path: [h for h in INCLUDE.findall(text) if h in texts] for path, text in texts.items()}
    codes = {path: code(text) for path, text in texts.items()}
    words = {path: set(re.findall(r"\w+", text)) for path, text in codes.items()}
    names = {path: declared(text) for path, text in codes.items() if path.endswith((".h", ".cuh"))}
    for path, headers in sorted(graph.items()):
        # Headers in front of `#pragma GCC target` are there to be compiled without it.
        if not path.endswith((".cc", ".cu")) or "#pragma GCC target" in texts[path]:
            continue
        members = set(re.findall(r"(?:\.|->)\s*(\w+)", codes[path])) - STANDARD_MEMBERS
        for header in headers:
            others = set().union(*(brought(graph, h) for h in headers if h != header))
            alone = {header} | brought(graph, header) - others
            used = any(names.get(h, words[h]) & words[path] for h in alone) or any(
                words[h] & members for h in alone if words[h] & {"class", "struct"}
            )
            if not used and os.path.splitext(header)[0] != os.path.splitext(path)[0]:
                yield path, header


def precompiled_headers(root):
    """(file, header) where a header of the project is precompiled: a compiler cache takes two of them that differ in a comment
    for one, and `#pragma once` then does not hold."""
    with open(os.path.join(root, "CMakeLists.txt"), encoding="utf-8") as file:
        own = ("CMakeLists.txt", file.read())
    for path, text in (own, *tree.texts(root, (*TOPS, "tests"), ("CMakeLists.txt",))):
        for headers in re.findall(r"target_precompile_headers\(([^()]*)\)", text):
            for header in re.findall(r"\S*(?:PROJECT_SOURCE_DIR|\w\.h\b)\S*", re.sub(r"<[^<>]*>", "", headers)):
                yield path, header


def main(root):
    order = floors(os.path.join(os.path.dirname(os.path.abspath(__file__)), "floors.txt"))
    graph = includes(root)
    wrong = []
    for path, headers in sorted(graph.items()):
        folder = os.path.dirname(path)
        if folder not in order:
            wrong.append(f"{path}: floors.txt does not name the folder {folder}")
            continue
        for header in headers:
            other = os.path.dirname(header)
            if header not in graph:
                wrong.append(f"{path}: there is no {header}")
            elif other not in order:
                wrong.append(f"{path}: includes {header}, and floors.txt does not name its folder")
            elif order.index(other) > order.index(folder):
                wrong.append(f"{path}: includes {header}, which stands on a higher floor")
    if cycle := header_cycle(graph):
        wrong.append("headers include each other: " + " -> ".join(cycle))
    wrong += [f"{path}: does not use {header}" for path, header in unused_headers(root)]
    wrong += [f"{path}: precompiles {header}, a header of the project" for path, header in precompiled_headers(root)]
    print("\n".join(wrong + [f"{len(graph)} files, {len(wrong)} mistakes"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

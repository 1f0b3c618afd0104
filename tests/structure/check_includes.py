"""Fails on an include against the order of folders in floors.txt, and on headers that include each other.

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
    print("\n".join(wrong + [f"{len(graph)} files, {len(wrong)} mistakes"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

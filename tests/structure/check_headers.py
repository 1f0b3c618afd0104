"""Fails on a header that does not include what it needs: unity builds and precompiled headers hide that.

check_headers.py SOURCE_DIR COMPILER [--all]: compiles headers alone, without --all one in 24, chosen by their
text, because each takes a second or more. Frequent headers of the standard library are precompiled, to save time; that a
header includes those whose names it uses is checked by its text.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import zlib

import tree

TOPS = ("engine", "data", "layers", "models", "trainer", "tests")
LIBRARY_INCLUDE = re.compile(r"^#include (<[^>]+>)", re.MULTILINE)
# Headers with kernels or declarations of CUDA, which compile only there. Those that are not included once are texts for
# the run-time compiler.
CUDA = re.compile(r"^#include (<cuda|<cub|<nccl|\"[^\"]*\.cuh)|__device__|__global__", re.MULTILINE)
# The headers that declare each name of namespace std.
DECLARED = {
    "array": ["array"], "atomic": ["atomic"], "bitset": ["bitset"], "byte": ["cstddef"], "chrono": ["chrono"],
    "complex": ["complex"], "condition_variable": ["condition_variable"], "deque": ["deque"],
    "exception_ptr": ["exception"], "filesystem": ["filesystem"], "function": ["functional"], "future": ["future"],
    "initializer_list": ["initializer_list"], "list": ["list"], "lock_guard": ["mutex"], "make_shared": ["memory"],
    "make_unique": ["memory"], "map": ["map"], "monostate": ["variant"], "mt19937": ["random"], "multimap": ["map"],
    "mutex": ["mutex"], "optional": ["optional"], "ostream": ["iosfwd", "ostream", "iostream", "sstream"],
    "ostringstream": ["sstream"], "queue": ["queue"], "set": ["set"], "shared_ptr": ["memory"],
    "source_location": ["source_location"], "span": ["span"], "string": ["string"], "string_view": ["string_view"],
    "thread": ["thread"], "tuple": ["tuple"], "type_index": ["typeindex"], "unique_lock": ["mutex"],
    "unique_ptr": ["memory"], "unordered_map": ["unordered_map"], "unordered_set": ["unordered_set"],
    "variant": ["variant"], "vector": ["vector"], "weak_ptr": ["memory"],
}
# The headers that declare the names of other namespaces.
OTHERS = {"fmt": ["fmt/format.h"], "nlohmann": ["nlohmann/json.hpp"], "testing": ["gtest/gtest.h", "gmock/gmock.h"]}
FREQUENT = ("algorithm", "cstdint", "functional", "map", "memory", "optional", "span", "string", "string_view", "vector")
NAMES = re.compile(r"\bstd::(%s)\b" % "|".join(DECLARED))
OTHER_NAMES = re.compile(r"(?<![\w:])(?:::)?(%s)::\w" % "|".join(OTHERS))
COMMENT = re.compile(r"//.*")
ANY_INT = re.compile(r"\bu?int(8|16|32|64)_t\b")


def headers(root):
    """The texts of the headers that compile alone, by path."""
    return {
        path: text
        for path, text in tree.texts(root, TOPS, (".h",))
        if "gloo_headers" not in path and "#pragma once" in text and not CUDA.search(text)
    }


def missing_includes(text):
    """The headers of libraries whose names are used but that are not included."""
    included = {name[1:-1] for name in LIBRARY_INCLUDE.findall(text)}
    code = COMMENT.sub("", text)
    result = set()
    for names, headers_of in ((NAMES, DECLARED), (OTHER_NAMES, OTHERS)):
        used = [headers_of[name] for name in names.findall(code)]
        result |= {declared[0] for declared in used if not included.intersection(declared)}
    if ANY_INT.search(code) and not included.intersection(("cstdint", "stdint.h")):
        result.add("cstdint")
    return sorted(result)


def main(root, compiler, part):
    found = headers(root)
    problems = []
    for path, text in found.items():
        for name in missing_includes(text):
            problems.append(f"{path}: uses names of <{name}> and does not include it")
    chosen = [path for path, text in found.items() if zlib.crc32((path + text).encode()) % part == 0]
    flags = [compiler, "-std=c++20", f"-I{root}", "-isystem", "/usr/include/eigen3", "-w"]
    with tempfile.TemporaryDirectory() as work:
        precompiled = os.path.join(work, "frequent.h")
        with open(precompiled, "w", encoding="utf-8") as file:
            file.writelines(f"#include <{name}>\n" for name in FREQUENT)
        subprocess.run([*flags, "-x", "c++-header", precompiled, "-o", precompiled + ".gch"], check=True)

        def compile_alone(path):
            command = [*flags, "-fsyntax-only", "-include", precompiled, "-x", "c++", "-"]
            run = subprocess.run(command, input=f'#include "{path}"\n', text=True, capture_output=True, check=False)
            return f"{path} does not compile alone:\n{run.stderr}" if run.returncode else ""

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            problems += [problem for problem in pool.map(compile_alone, chosen) if problem]
    print("\n".join(problems + [f"{len(found)} headers, {len(chosen)} compiled, {len(problems)} mistakes"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), sys.argv[2], 1 if sys.argv[3:] == ["--all"] else 24))

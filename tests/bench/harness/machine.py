"""What stands beside figures: the machine and the commit; and how fast the machine reads memory."""

import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.abspath(os.path.join(HERE, "../../.."))


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        text = file.read()
    keys = ("model name", "cpu family", "model", "flags")
    found = {key: re.search(rf"^{key}\s*:\s*(.*)$", text, re.MULTILINE) for key in keys}
    name, family, model, flags = (match[1] if match else "unknown" for match in found.values())
    vectors = [label for flag, label in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags.split()]
    return f"{name} (family {family}, model {model}{', ' + vectors[0] if vectors else ''})"


def commit():
    """The commit of the sources that hold this program, with `, changed` if there are changes that it lacks."""
    git = lambda *arguments: subprocess.run(["git", "-C", SOURCE, *arguments], capture_output=True, text=True, check=False)
    head = git("rev-parse", "--short=7", "HEAD")
    if head.returncode != 0:
        return "unknown"
    changed = git("status", "--porcelain", "--untracked-files=no").stdout.strip()
    return head.stdout.strip() + (", changed" if changed else "")


def read_bandwidth(threads, directory):
    """Bytes per second that a loop reads from memory and adds up (read_bandwidth.cc, compiled here)."""
    program = os.path.join(directory, "read_bandwidth")
    if not os.path.exists(program):
        compiler = os.environ.get("CXX", "c++")
        source = os.path.join(SOURCE, "tests/bench/read_bandwidth.cc")
        subprocess.run([compiler, "-O3", "-march=native", "-std=c++20", "-pthread", source, "-o", program], check=True)
    return float(subprocess.run([program, str(threads)], check=True, capture_output=True, text=True).stdout)

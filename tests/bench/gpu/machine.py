"""The machine as the benchmarks of this folder see it: mtf-train's programs, the libraries of CUDA, the card, and
results as JSON."""

import contextlib
import glob
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import threading

EMULATOR = "libmtf_cuda_emulator.so"


def add_arguments(parser):
    """The arguments that all benchmarks have."""
    parser.add_argument("--json", metavar="FILE", help="results")
    parser.add_argument(
        "--emulator", action="store_true",
        help="tries the script without a GPU: mtf-train on the emulated one, PyTorch on the processor",
    )  # fmt: skip


def library_directories():
    """Directories of the wheels of this Python that hold libraries of CUDA, those that PyTorch loads."""
    spec = importlib.util.find_spec("nvidia")
    roots = spec.submodule_search_locations if spec else []
    return sorted(d for root in roots for d in glob.glob(f"{root}/*/lib") if glob.glob(f"{d}/*.so*"))


def environment(program, emulator):
    """Of mtf-train's programs: which GPU, and where the libraries are. What the user has set comes first."""
    result = dict(os.environ)
    if emulator:
        plugin = os.path.join(os.path.dirname(os.path.abspath(program)), "../lib", EMULATOR)
        if not os.path.exists(plugin):
            raise SystemExit(f"{plugin} is not there: this build has no emulated GPU")
        result["MTF_CUDA_PLUGIN"] = plugin
    named = [result["MTF_CUDA_LIBRARY_PATH"]] if result.get("MTF_CUDA_LIBRARY_PATH") else []
    result["MTF_CUDA_LIBRARY_PATH"] = ":".join(named + library_directories())
    return result


class ProgramFailed(SystemExit):
    """Ends the script with what the program has said, unless it is caught."""


def run(command, **options):
    """The output of a program. Throws ProgramFailed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-3000:]
        raise ProgramFailed(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{said}")
    return done.stdout


def query_card(keys):
    """What nvidia-smi says of the first card, or None."""
    try:
        command = ["nvidia-smi", f"--query-gpu={keys}", "--format=csv,noheader,nounits"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.split("\n")[0].split(", ") if done.returncode == 0 and done.stdout.strip() else None


class CardMemory:
    """The largest use of the card's memory while the block runs, in bytes over what was in use before; None without
    a card. nvidia-smi is asked five times a second."""

    def __enter__(self):
        self.peak, self.ended = None, threading.Event()
        before = self.used()
        if before is not None:
            self.thread = threading.Thread(target=self.watch, args=(before,))
            self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        if self.peak is not None:
            self.thread.join()

    def watch(self, before):
        while True:
            self.peak = max(self.peak, (self.used() or before) - before)
            if self.ended.wait(0.2):
                return

    def used(self):
        fields = query_card("memory.used")
        if fields is None:
            return None
        self.peak = self.peak or 0
        return int(fields[0]) * 2**20


def describe(program, emulator):
    """What figures need beside them: versions, card, driver."""
    card = None if emulator else query_card("name,driver_version,memory.total,clocks.max.sm")
    result = {"host": platform.node(), "python": platform.python_version(), "emulator": emulator, "card": card}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        result["torch"] = importlib.metadata.version("torch")
    if program:
        result["mtf-train"] = run([program, "--version"]).strip().split("\n")[0]
    return result


def write_json(path, results):
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
            file.write("\n")

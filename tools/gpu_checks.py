"""The first checks on a machine with a GPU, in the order in which one stands on the other; check.py of a pack that
tools/gpu_pack.sh has made.

    python3 gpu_pack/check.py [--output DIR] [--only REGEX] [--skip REGEX] [--limit SECONDS] [--jobs N] [--list]

Driver, libraries of CUDA, programs, devices; each suite of the kernels' tests in a process of its own; tests of the engine
on the GPU; NCCL; runs compared (recorded, operation by operation, processor); samples under compute-sanitizer; benchmarks
against PyTorch. It goes on after failures. DIR (default $OUT, else results) gets results.json, rewritten after each
step, logs/STEP.log, and the JSON of the benchmarks. After --limit no further step begins. With --jobs several tests run
side by side, but a benchmark has the machine to itself. A pack with the emulated GPU runs the same steps at tiny sizes.
Exits with 1 if a step has failed.
"""

import argparse
import concurrent.futures
import contextlib
import glob
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

PACK = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(PACK, "sources")
BENCHMARKS = os.path.join(SOURCES, "tests/bench/gpu")
sys.path.insert(0, BENCHMARKS)
import machine  # noqa: E402

FIRST_SUITES = ("DeviceTest", "OpenDevice", "Matmul", "Einsum", "FusedEinsum", "FusedEpilogues", "Fus", "Nvrtc", "Grouped")
SANITIZED = (("memcheck", r"^(DeviceTest|Norm|Gather)"), ("racecheck", r"^(CrossEntropy|TopK|Softmax)"), ("synccheck", r"^CudaAttention"))


def program(name):
    return os.path.join(PACK, "bin", name)


def read_pack():
    with open(os.path.join(PACK, "pack.json"), encoding="utf-8") as file:
        return json.load(file)


def start(command, file, environment):
    """A process in a session of its own, so that wait_for can end all that it has started."""
    return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment, start_new_session=True)


def session_of(process):
    """The session of a process by its number, or None if it has gone."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[3])
    return None


def wait_for(process, end):
    """Its exit code. At the time `end` it is killed, with all processes of its session: 124."""
    try:
        return process.wait(max(0.1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        for number in filter(str.isdigit, os.listdir("/proc")):
            if session_of(number) == process.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(number), signal.SIGKILL)
        process.wait()
        return 124


class Step:
    """A command, or a function that returns whether it went well and a line about it."""

    def __init__(self, name, action, limit=120, needed=False, alone=False, **environment):
        self.name, self.action, self.limit, self.needed, self.alone = name, action, limit, needed, alone
        self.environment = environment

    def run(self, log, environment):
        """(exit code or None, whether it went well, a line)."""
        if callable(self.action):
            good, line = self.action(environment)
            with open(log, "w", encoding="utf-8") as file:
                file.write(line + "\n")
            return None, good, line
        with open(log, "w", encoding="utf-8") as file:
            file.write(" ".join(self.action) + "\n")
            file.flush()
            variables = {**environment, **self.environment}
            code = wait_for(start(self.action, file, variables), time.monotonic() + self.limit)
        with open(log, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file.read().split("\n")[1:] if line.strip()]
        return code, code == 0, lines[-1][:200] if lines else ""


class TestSuite(Step):
    """One suite of a test program. A suite whose tests were all skipped has shown nothing: that is a failure."""

    def __init__(self, binary, suite, output, limit):
        self.report = os.path.join(output, "logs", f"{binary}.{suite.replace('/', '-')}.json")
        command = [program(binary), "--gtest_brief=1", f"--gtest_filter={suite}.*", f"--gtest_output=json:{self.report}"]
        super().__init__(f"{binary}:{suite}", command, limit)

    def run(self, log, environment):
        code, good, line = super().run(log, environment)
        if not os.path.exists(self.report):
            return code, False, f"ended before its report: {line}"
        with open(self.report, encoding="utf-8") as file:
            tests = [test for suite in json.load(file)["testsuites"] for test in suite["testsuite"]]
        failed = [test["name"] for test in tests if test.get("failures")]
        skipped = [test for test in tests if test["result"] == "SKIPPED"]
        line = f"{len(tests)} tests" + (f", {len(skipped)} skipped" if skipped else "")
        line += f", failed: {' '.join(failed)}" if failed else ""
        return code, good and not failed and len(skipped) < len(tests), line


class ShardedTests(Step):
    """The tests of a program that match, on the GPU, by several processes at once: opening a device takes longer than most.
    Tests of random cases try a third of what they try on the processor, where a kernel begins sooner."""

    def __init__(self, binary, tests, limit, processes=4):
        super().__init__(f"engine:{binary}", [program(binary), "--gtest_brief=1", f"--gtest_filter={tests}"], limit)
        self.processes = processes

    def run(self, log, environment):
        end, running, texts = time.monotonic() + self.limit, [], []
        for shard in range(self.processes):
            numbers = {"GTEST_TOTAL_SHARDS": str(self.processes), "GTEST_SHARD_INDEX": str(shard), "MTF_TEST_DEVICES": "cuda",
                       "MTF_TEST_BUDGET": "34"}  # fmt: skip
            with open(f"{log}.{shard}", "w", encoding="utf-8") as file:
                running.append(start(self.action, file, {**environment, **numbers}))
        codes = []
        for shard, process in enumerate(running):
            codes.append(wait_for(process, end))
            with open(f"{log}.{shard}", encoding="utf-8", errors="replace") as file:
                texts.append(file.read())
        text = "".join(texts)
        passed = sum(map(int, re.findall(r"PASSED  \] (\d+) test", text)))
        failed = sorted(set(re.findall(r"FAILED  \] ([\w./]+)", text)))
        line = f"{passed} tests passed" + (f", failed: {' '.join(failed)}" if failed else "")
        return max(codes, key=abs), not any(codes) and passed > 0, line[:500]


def link_sources(pack):
    """Tests read golden files where their sources stood when they were built: a link takes that place where it is free.
    Its path, or None."""
    place = pack["source_dir"]
    if os.path.exists(place):
        return None
    try:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.symlink(SOURCES, place)
    except OSError as error:
        print(f"no link at {place}, tests of recorded results will fail: {error}")
        return None
    return place


def suites_of(binary, environment):
    """The names of its suites, from the program itself."""
    done = subprocess.run([program(binary), "--gtest_list_tests"], capture_output=True, text=True, env=environment)
    names = [line.split(".")[0] for line in done.stdout.split("\n") if re.match(r"\w\S*\.", line)]

    def rank(name):
        return next((i for i, first in enumerate(FIRST_SUITES) if first in name), len(FIRST_SUITES))

    return sorted(names, key=rank)


def find_libraries(environment):
    """Where each of CUDA's libraries would come from. Those but cuBLASLt may be missing, then less is fused or exchanged."""
    found, lines = {}, []
    places = environment.get("MTF_CUDA_LIBRARY_PATH", "").split(":")
    loader = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    for name in ("libcublasLt.so", "libnvrtc.so", "libnccl.so", "libcudnn.so"):
        paths = [path for place in places if place for path in sorted(glob.glob(f"{place}/{name}.*"))]
        paths += re.findall(rf"{re.escape(name)}\.\d+ .*=> (\S+)", loader) + sorted(glob.glob(f"/usr/local/cuda/lib64/{name}.*"))
        found[name] = paths[0] if paths else None
        lines.append(f"{name}: {found[name] or 'MISSING'}")
    return all(found.values()), "; ".join(lines)


def check_driver(_):
    fields = machine.query_card("name,driver_version,memory.total,memory.used,compute_mode,mig.mode.current")
    return fields is not None, ", ".join(fields) if fields else "nvidia-smi does not answer"


def check_dependencies(environment):
    libraries = {**environment, "LD_LIBRARY_PATH": os.path.join(PACK, "libraries")}
    files = glob.glob(f"{PACK}/programs/*") + glob.glob(f"{PACK}/lib/*")
    text = subprocess.run(["ldd", *files], capture_output=True, text=True, env=libraries)
    missing = sorted(set(re.findall(r"(\S+) => not found|version `(\S+)' not found", text.stdout + text.stderr)))
    names = [a or b for a, b in missing]
    return not names, f"missing: {' '.join(names)}" if names else f"{len(files)} files have all that they need"


def check_devices(environment):
    done = subprocess.run([program("mtf-train"), "--list-devices"], capture_output=True, text=True, env=environment, timeout=120)
    lines = [line for line in (done.stdout + done.stderr).split("\n") if re.match(r"cuda:|no GPU", line)]
    return any(line.startswith("cuda:0") for line in lines), "; ".join(lines)[:300]


def suite_steps(binary, output, environment, limit, quick):
    names = suites_of(binary, environment)
    if quick:
        names = names[:4]
    return [TestSuite(binary, name, output, limit) for name in names]


def engine_steps(limit, quick):
    """The tests of operations, programs and runs of the engine, and of models, that compute on the device that they are told.
    Suites that look at texts and plans, or at kernels of the processor, are left out, and so are central differences: each
    kernel of a gradient is compared with the processor's (cuda_gpu_test)."""
    if quick:
        return [ShardedTests("ops_test", "Softmax*", limit, processes=2)]
    tests = {
        "ops_test": "*-*InstructionSet.*:*Gemm*:EinsumCuts.*:*Tasks.*:Joint*:SummedProducts.*:Int8*:*/Gradient.*",
        "spmd_test": "FuseNorms.*:Partition.*:Pipeline.*:RandomPrograms.*:Rename.*:Reshape.*",
        "runtime_test": "*-ActiveWorkers.*:ArenaLayout.*:ConcurrentSteps.*:Joint*:RecordedSegments.*:ThreadPool.*",
        "trainer_test": "GoldenTransformer.*:GoldenBert.*:*NarrowActivations.*:*RoundedFactors.*:*LocalAttention*:Averages.*",
    }
    return [ShardedTests(binary, names, limit) for binary, names in tests.items()]


def sanitizer_steps(binary, names):
    tool = shutil.which("compute-sanitizer")
    steps = []
    for kind, pattern in SANITIZED if tool else ():
        chosen = ":".join(f"{name}.*" for name in names if re.search(pattern, name))
        command = [tool, "--tool", kind, "--error-exitcode", "9", os.path.join(PACK, "programs", binary), "--gtest_brief=1"]
        libraries = os.path.join(PACK, "libraries")
        steps.append(Step(f"sanitizer:{kind}", [*command, f"--gtest_filter={chosen}"], 180, LD_LIBRARY_PATH=libraries))
    return steps


def benchmark_steps(output, tiny):
    """Without PyTorch our side alone."""
    has_torch = importlib.util.find_spec("torch") is not None
    ours = [] if has_torch else ["--sides", "mtf-train"]
    eager = ["--sides", "mtf-train,eager"] if tiny and has_torch else ours  # to compile takes long
    bench, train = program("gpu_operations_bench"), program("mtf-train")
    commands = {
        "gpt2_vs_torch": [train, *eager, "--profile"],
        "attention_vs_cudnn": [bench, *([] if has_torch else ["--no-torch"])],
        "optimizer_updates": [bench],
        "translation_vs_torch": [train, *eager],
        "decoding": [train],
    }
    steps = []
    for name, arguments in commands.items():
        command = [sys.executable, f"{BENCHMARKS}/{name}.py", *arguments, "--json", f"{output}/{name}.json"]
        steps.append(Step(f"bench:{name}", command + (["--emulator", "--tiny"] if tiny else []), 420, alone=True))
    return steps


def all_steps(pack, output, environment, quick):
    emulated = "emulator" in pack["plugin"]
    binary = "cuda_test" if emulated else "cuda_gpu_test"
    steps = [] if emulated else [Step("driver", check_driver), Step("libraries", find_libraries)]
    steps += [Step("dependencies", check_dependencies), Step("list-devices", check_devices, needed=True)]
    suites = suite_steps(binary, output, environment, 900 if emulated else 120, quick)
    steps += suites + engine_steps(3600 if emulated else 400, quick)
    comparisons = ["bash", f"{SOURCES}/tests/end_to_end/gpu_comparisons.sh", program("mtf-train"), SOURCES]
    steps.append(Step("runs", [*comparisons, "4" if emulated else "20"], 420))
    if not emulated:
        for name in ("nccl", "faults"):
            script = f"{SOURCES}/tests/end_to_end/gpu_{name}_test.sh"
            alone = name == "faults"  # takes the card's memory from others
            steps.append(Step(name, ["bash", script, program("mtf-train"), SOURCES], 300, alone=alone, MTF_REQUIRE_GPU="1"))
        steps += sanitizer_steps(binary, [suite.name.split(":")[1] for suite in suites])
    return steps + benchmark_steps(output, tiny=emulated)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default=os.environ.get("OUT", "results"))
    parser.add_argument("--only", default="", metavar="REGEX", help="steps whose names match")
    parser.add_argument("--skip", default="^$", metavar="REGEX", help="but not those whose names match")
    parser.add_argument("--limit", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="steps side by side, but for benchmarks")
    parser.add_argument("--quick", action="store_true", help="few suites: whether the pack works")
    parser.add_argument("--list", action="store_true", help="names the steps and ends")
    return parser.parse_args()


def run_step(step, output, environment):
    """The record of a step."""
    start = time.monotonic()
    log = f"{output}/logs/{re.sub(r'[^A-Za-z0-9_.-]+', '-', step.name)}.log"
    try:
        code, good, line = step.run(log, environment)
    except (OSError, subprocess.SubprocessError) as error:
        code, good, line = None, False, str(error)
    seconds = round(time.monotonic() - start, 2)
    return {"name": step.name, "ok": good, "exit_code": code, "seconds": seconds, "line": line}


class Runner:
    """Adds a record of each step to the results, which are written after each."""

    def __init__(self, options, output, environment, results):
        self.options, self.output, self.environment, self.results = options, output, environment, results
        self.begin, self.stopped = time.monotonic(), None
        results["steps"] = []

    def add(self, record):
        self.results["steps"].append(record)
        machine.write_json(f"{self.output}/results.json", self.results)
        word = {True: "ok", False: "FAIL", None: "-"}[record["ok"]]
        print(f"{word:4} {record.get('seconds', 0):6.1f} s  {record['name']}: {record['line']}", flush=True)

    def run(self, step):
        left = self.options.limit - (time.monotonic() - self.begin)
        if self.stopped or left <= 0:
            return {"name": step.name, "ok": None, "line": self.stopped or "not begun: --limit"}
        step.limit = min(step.limit, max(1, left))
        record = run_step(step, self.output, self.environment)
        if step.needed and not record["ok"]:
            self.stopped = f"not begun: {step.name} has failed"
        return record

    def run_together(self, steps):
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for done in concurrent.futures.as_completed([pool.submit(self.run, step) for step in steps]):
                self.add(done.result())

    def run_all(self, steps):
        """Names of those that have failed or have not begun."""
        together = []
        for step in steps:
            if self.options.jobs > 1 and not step.alone and not step.needed:
                together.append(step)
                continue
            self.run_together(together)
            together = []
            self.add(self.run(step))
        self.run_together(together)
        return [record["name"] for record in self.results["steps"] if not record["ok"]]


def main():
    options, pack = parse(), read_pack()
    output = os.path.abspath(options.output)
    os.makedirs(f"{output}/logs", exist_ok=True)
    emulated = "emulator" in pack["plugin"]
    environment = machine.environment(program("mtf-train"), emulated)
    chosen = [step for step in all_steps(pack, output, environment, options.quick)
              if re.search(options.only, step.name) and not re.search(options.skip, step.name)]  # fmt: skip
    if options.list:
        print("\n".join(step.name for step in chosen))
        return
    link = link_sources(pack)
    try:
        results = {"pack": pack, "machine": machine.describe(program("mtf-train"), emulated)}
        failed = Runner(options, output, environment, results).run_all(chosen)
    finally:
        if link:
            os.remove(link)
    print(f"{len(chosen) - len(failed)} of {len(chosen)} steps are well; {output}/results.json")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

"""Answers the requests of harness/workers.py."""

import json
import os
import resource
import sys
import time


def serve(functions):
    """Calls functions[request.pop("what")](**request) for each line of JSON on standard input, and writes what it returns
    with its cost. What libraries write to standard output goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        wall, cpu = time.monotonic(), time.process_time()
        result = functions[request.pop("what")](**request)
        wall, cpu = time.monotonic() - wall, time.process_time() - cpu
        peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"result": result, "wall": wall, "cpu": cpu, "peak": peak}), file=answers, flush=True)

"""check_profile.py STEPS FILE...: each file is the timeline of a process of one run: whole spans that are within one another or
apart, the same steps in all, at comparable times. Prints what is in them: counts of KIND NAME, names cut at the first blank."""
import collections
import json
import sys


def events_of(path):
    with open(path) as file:
        return json.load(file)["traceEvents"]


def check_nesting(path, spans):
    """Of one thread."""
    open_spans = []
    for span in spans:  # in the order of the file: by their beginnings
        begin, end = span["ts"], span["ts"] + span["dur"]
        while open_spans and open_spans[-1] <= begin + 5e-4:  # the file has nanoseconds
            open_spans.pop()
        assert not open_spans or end <= open_spans[-1] + 1e-3, f"{path}: {span} ends after what contains it"
        open_spans.append(end)


def check(path, rank, steps):
    events = events_of(path)
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans = collections.defaultdict(list)
    for event in events:
        assert event["pid"] == rank, (path, event)
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["tid"] in threads, (path, event)
            spans[event["tid"]].append(event)
    for of_thread in spans.values():
        check_nesting(path, of_thread)
    main = next(tid for tid, name in threads.items() if name == "main thread")
    found = [e for e in spans[main] if e["cat"] == "step"]
    assert len(found) == steps, (path, len(found))
    first, last = found[0]["ts"], found[-1]["ts"] + found[-1]["dur"]
    for name, of_thread in ((threads[t], s) for t, s in spans.items()):
        if name.startswith("worker") or name == "main thread":
            assert all(first <= e["ts"] and e["ts"] + e["dur"] <= last + 1 for e in of_thread), (path, name)
    return threads, spans, found


def main():
    steps = int(sys.argv[1])
    counts = collections.Counter()
    times = []
    for rank, path in enumerate(sys.argv[2:]):
        threads, spans, found = check(path, rank, steps)
        times.append([(e["args"]["step"], e["ts"], e["ts"] + e["dur"]) for e in found])
        for tid, of_thread in spans.items():
            kind = "communication thread" if threads[tid] == "communication" else "thread"
            counts.update(f"{kind} {e['cat']} {e['name'].split()[0]}" for e in of_thread)
    # Collectives hold the processes together: each step of one meets the same step of every other.
    for same in zip(*times):
        assert len({step for step, _, _ in same}) == 1, same
        assert max(begin for _, begin, _ in same) < min(end for _, _, end in same), same
    for name, count in sorted(counts.items()):
        print(name, count)


main()

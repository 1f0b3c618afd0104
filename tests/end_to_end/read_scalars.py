"""read_scalars.py DIRECTORY: what TensorBoard's own readers find in a run's event files is exactly what metrics.jsonl and
evaluate.jsonl hold, in float32."""
import collections
import glob
import json
import sys

import numpy as np
from tensorboard.backend.event_processing import event_accumulator, event_file_loader

COUNTERS = {"train/": {"step", "epoch", "examples", "tokens"}, "": {"step", "examples", "tokens", "seconds"}}


def expected(directory):
    """tag -> [(step, value), ...]; what is not finite is null in the lines and no point of a curve."""
    scalars = collections.defaultdict(list)
    for file, prefix in (("metrics.jsonl", "train/"), ("evaluate.jsonl", "")):
        for line in open(f"{directory}/{file}"):
            numbers = json.loads(line)
            curve = prefix or numbers.pop("dataset") + "/"
            for name, value in numbers.items():
                if name not in COUNTERS[prefix] and value is not None:
                    scalars[curve + name].append((numbers["step"], np.float32(value)))
    return dict(scalars)


def check_run(directory):
    """The reader of a whole run."""
    events = event_accumulator.EventAccumulator(directory, size_guidance={event_accumulator.SCALARS: 0})
    events.Reload()
    found = {tag: [(e.step, np.float32(e.value)) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    wanted = expected(directory)
    assert found.keys() == wanted.keys(), f"tags {sorted(found)}, not {sorted(wanted)}"
    for tag, points in wanted.items():
        assert found[tag] == points, f"{tag}: {found[tag]}, not {points}"
        times = [e.wall_time for e in events.Scalars(tag)]
        assert times == sorted(times), f"{tag}: the times go back"
    return sum(len(points) for points in wanted.values())


def check_files(directory):
    """The reader of one file, which throws away nothing: the same number of points, for the scalars plug-in."""
    count = 0
    for path in sorted(glob.glob(f"{directory}/events.out.tfevents.*")):
        for event in event_file_loader.EventFileLoader(path).Load():
            for value in event.summary.value:
                assert value.metadata.plugin_data.plugin_name == "scalars", value
                count += 1
    return count


points = check_run(sys.argv[1])
in_files = check_files(sys.argv[1])
assert points == in_files > 0, f"{points} points, but {in_files} in the files"
print(f"{points} points are the same")

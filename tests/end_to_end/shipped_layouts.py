"""Compares `layout: auto` with the shipped layouts of configs/layouts on the shipped models of configs/models.

    shipped_layouts.py MTF_TRAIN SOURCE [all | MODEL:LAYOUT...] [KEY=VALUE...]

What is found on the mesh of a layout must not be predicted to be more than 1 % slower than that layout, where this is
legal and fits into the memory. Without MODEL:LAYOUT some pairs are compared, with `all` all of them. KEY=VALUE are arguments
of the search, such as layout_search.time_limit=10s."""
import json
import pathlib
import subprocess
import sys

TOLERANCE = 1.01
SECTIONS = ("layout", "parameter_layout", "optimizer_layout")
SAMPLE = """mnist:data_and_model_parallel_4 mnist:fsdp_4 toy:data_parallel mnist_conv:model_parallel_4 cifar:zero1_4
            lm_base:2x2_dp_mp paper_lm_2:16x16_m8 vit_base:data_parallel""".split()
NOT_ALONE = {"transformer_defaults", "resnet_defaults", "tiny", "encoder_small"}  # parts of other models

program, source = sys.argv[1], pathlib.Path(sys.argv[2])
configs = source / "configs"


found_on = {}  # what was found before, by model and mesh


class Illegal(Exception):
    """The model does not allow the layout."""


def explain(model, layout, *arguments):
    """The JSON document of run.mode=explain, and what stands on standard error."""
    is_image = any(word in model for word in ("mnist", "cifar", "alexnet", "inception", "resnet", "vit", "conv_"))
    data = [] if is_image or model == "toy" else ["vars.data=none", "data.vocabulary.size=32768"]
    command = [program, configs / "models" / f"{model}.yaml", configs / "layouts" / f"{layout}.yaml",
               "run.mode=explain", "explain.format=json", "explain.tensors=false", "run.model_dir=none",
               "hardware=h100_8x_nvlink_400g", "train.batch_size=512", *data, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 2 and "/layouts/" in done.stderr:  # the line names the file of the layout
        raise Illegal(done.stderr.strip().splitlines()[0])
    assert done.returncode == 0, (command, done.stderr)
    return json.loads(done.stdout), done.stderr


def compare(model, layout, arguments):
    """Prints a line; returns whether the found layout is as fast as the shipped one."""
    try:
        shipped, _ = explain(model, layout)
    except Illegal as error:
        print(f"{model} {layout}: not legal: {error}", flush=True)
        return None
    memory = shipped["memory"]
    if not (memory["position"]["fits"] and memory["process"]["fits"]):
        print(f"{model} {layout}: does not fit", flush=True)
        return None
    key = model, json.dumps(shipped["mesh"])
    if key not in found_on:
        found_on[key] = explain(model, layout, *(f"{section}=auto" for section in SECTIONS),
                                "layout_search.time_limit=60s", *arguments)
    found, text = found_on[key]
    seconds = [document["prediction"]["seconds"] for document in (shipped, found)]
    is_good = seconds[1] <= TOLERANCE * seconds[0]
    search = text.splitlines()[0].removeprefix("layout search: ")
    print(f"{model} {layout}: {seconds[0] * 1e3:.4g} ms, found {seconds[1] * 1e3:.4g} ms"
          f"{'' if is_good else ': SLOWER'}; {search}", flush=True)
    return is_good


def main():
    wanted = sys.argv[3:]
    arguments = [argument for argument in wanted if "=" in argument]
    pairs = [argument for argument in wanted if ":" in argument and "=" not in argument] or SAMPLE
    if "all" in wanted:
        models = sorted(path.stem for path in (configs / "models").glob("*.yaml"))
        layouts = sorted(path.stem for path in (configs / "layouts").glob("*.yaml"))
        pairs = [f"{model}:{layout}" for model in models if model not in NOT_ALONE
                 for layout in layouts if layout != "single"]
    results = [compare(*pair.split(":"), arguments) for pair in pairs]
    compared = [result for result in results if result is not None]
    print(f"{len(compared)} layouts compared, {compared.count(False)} found ones slower")
    sys.exit(1 if not compared or not all(compared) else 0)


main()

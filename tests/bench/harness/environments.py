"""Virtual environments of the programs that are compared with, from PyPI, with the versions that docs/speed.md names."""

import json
import os
import subprocess

PACKAGES = {
    "peers": {
        "ctranslate2": "4.8.5", "numpy": "2.4.6", "pymarian": "1.12.42", "pyyaml": "6.0.4", "safetensors": "0.8.0",
        "sentencepiece": "0.2.3", "torch": "2.15.0", "transformers": "5.24.0",
    },
    "jax": {"jax": "0.10.2", "jaxlib": "0.10.2", "numpy": "2.4.6", "optax": "0.2.8"},
    "llama": {"gguf": "0.19.0", "llama-cpp-python": "0.3.36", "numpy": "2.4.6"},
    "images": {"numpy": "2.4.6", "pillow": "13.0.0", "xxhash": "4.1.0"},
}  # fmt: skip
VERSIONS = (
    "import importlib.metadata, json, sys; print(json.dumps({name: importlib.metadata.version(name) for name in sys.argv[1:]}))"
)
checked = set()


def directory(name):
    root = os.environ.get("MTF_BENCH_VENVS", os.path.expanduser("~/.cache/mtf-train"))
    return os.path.join(root, name)


def has_versions(python, packages):
    if not os.path.exists(python):
        return False
    done = subprocess.run([python, "-c", VERSIONS, *packages], capture_output=True, text=True, check=False)
    return done.returncode == 0 and json.loads(done.stdout) == packages


def program(name, executable="python"):
    """The path of a program of an environment, which is made if it is not there or has other versions."""
    path = directory(name)
    python, packages = os.path.join(path, "bin/python"), PACKAGES[name]
    if name not in checked and not has_versions(python, packages):
        print(f"installing {', '.join(packages)} into {path}", flush=True)
        subprocess.run(["python3", "-m", "venv", path], check=True)
        pins = [f"{package}=={version}" for package, version in packages.items()]
        subprocess.run([python, "-m", "pip", "install", "-q", *pins], check=True)
    checked.add(name)
    return os.path.join(path, "bin", executable)

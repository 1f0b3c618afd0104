"""The files of the sources, for the checks of this folder."""

import os


def texts(root, tops, suffixes):
    """(path from the root, text) of each file below the folders `tops` whose name ends with one of the suffixes."""
    for top in tops:
        for directory, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith(suffixes):
                    path = os.path.join(directory, name)
                    with open(path, encoding="utf-8", errors="replace") as file:
                        yield os.path.relpath(path, root), file.read()

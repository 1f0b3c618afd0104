"""Sizes of the models that several programs train, see comparisons/training_models.py."""

LANGUAGE = {"d_model": 256, "d_ff": 1024, "vocabulary": 8192}
SHAPES = {
    "lm": {**LANGUAGE, "layers": 4, "heads": 4, "length": 256, "rows": 8},
    "encdec": {**LANGUAGE, "layers": 3, "heads": 8, "length": 64, "rows": 32},  # so many layers on each side
    "mlp": {"sizes": [784, 512, 512, 10], "image": [28, 28], "rows": 128},
    "cnn": {"image": [28, 28], "rows": 64},
    "conv9": {"image": [28, 28], "rows": 64},
    "resnet18": {"image": [32, 32, 3], "rows": 64},
    "switch": {
        "d_model": 256, "layers": 2, "heads": 4, "vocabulary": 384, "length": 256, "rows": 16,
        "experts": 32, "chosen": 1, "size": 1024, "activation": "relu",
    },
    "mixtral": {
        "d_model": 256, "layers": 2, "heads": 4, "vocabulary": 384, "length": 256, "rows": 16,
        "experts": 8, "chosen": 2, "size": 512, "activation": "[swish, linear]",
    },
}  # fmt: skip
FIRST_ID, LAST_ID = 97, 122  # bytes of the letters of random texts
CLASSES = 10


def tokens_per_step(model):
    return SHAPES[model]["rows"] * SHAPES[model].get("length", 1)

"""What both programs of comparisons/encoders.py train: sizes of the encoder, and the recipe."""

LENGTH = 64
LAYERS, D_MODEL, D_FF, HEADS = 2, 128, 512, 4
WARM_UP = {"pretrain": 0.05, "classify": 0.1}  # part of the steps
DROPOUT = {"pretrain": 0.0, "classify": 0.1}
LABELS = ["as_written", "shuffled"]

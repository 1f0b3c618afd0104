"""The models of `bench.py training` as mtf-train has them, with random data: peers/torch_models.py and peers/jax_training.py
have the same ones.

lm and encdec: blocks of attention and a hidden layer of 1,024 with relu, an RMS norm before each, learned positions, tied
embeddings, no biases. mlp: 784-512-512-10 with relu. cnn: two convolutions of 3 x 3 with max pooling and two dense layers.
resnet18: ResNet-18 on 32 x 32 x 3 pixels, its first convolution 3 x 3 without pooling behind it. conv9: two convolutions of
9 x 9, whose 28 rows and columns can be split in two and in four. switch and mixtral: two blocks of attention (rotary
positions) and experts, computed without a capacity.
"""

import array
import random

from peers.shapes import CLASSES, SHAPES

CNN = """
    - conv2d: {output: {filters_1: 32}, kernel: 3, activation: relu}
    - max_pool: 2
    - conv2d: {output: {filters_2: 64}, kernel: 3, activation: relu}
    - max_pool: 2
    - dense: {output: {hidden: 128}, over: [rows, cols, filters_2], activation: relu}
    - dense: {output: {classes: 10}}
"""
CONV9 = """
    - conv2d: {output: {filters_1: 16}, kernel: 9, activation: relu}
    - conv2d: {output: {filters_2: 16}, kernel: 9, activation: relu}
    - mean: {over: filters_2}
    - dense: {output: {hidden: 128}, over: [rows, cols], activation: relu}
    - dense: {output: {classes: 10}}
"""
RESNET18 = """
    - conv2d: {output: {filters: 64}, kernel: 3}
    - batch_norm
    - activation: relu
    - block: {use: same, filters: 64}
    - block: {use: same, filters: 64}
    - block: {use: smaller, filters: 128}
    - block: {use: same, filters: 128}
    - block: {use: smaller, filters: 256}
    - block: {use: same, filters: 256}
    - block: {use: smaller, filters: 512}
    - block: {use: same, filters: 512}
    - global_average_pool
    - dense: {output: {classes: 10}}
  layer_defaults:
    conv2d: {bias: false}
  blocks:
    convolutions:
      - conv2d: {output: {filters: $filters}, kernel: 3, stride: $stride, padding: 1}
      - batch_norm
      - activation: relu
      - conv2d: {output: {filters: $filters}, kernel: 3}
      - batch_norm
    same:
      - residual: {layers: [block: {use: convolutions, filters: $filters, stride: 1}]}
      - activation: relu
    smaller:
      - residual:
          layers: [block: {use: convolutions, filters: $filters, stride: 2}]
          shortcut: [conv2d: {output: {filters: $filters}, kernel: 1, stride: 2}, batch_norm: {}]
      - activation: relu
"""
MLP = """
    - dense: {output: {hidden_1: 512}, over: [rows, cols], activation: relu}
    - dense: {output: {hidden_2: 512}, activation: relu}
    - dense: {output: {classes: 10}}
"""
IMAGES = {"mlp": MLP, "cnn": CNN, "conv9": CONV9, "resnet18": RESNET18}


def write_text(path, lines, length):
    """Lines of random letters: rows of `length` tokens (bytes) with their ends."""
    draw = random.Random(1)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(lines):
            file.write("".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=length - 1)) + "\n")


def write_npy(path, dtype, shape, data):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header = header.ljust(117) + "\n"  # with the ten bytes before it a multiple of 64
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data)


def image_model(session, model):
    shape = SHAPES[model]
    count, size = 10 * shape["rows"], 1
    for n in shape["image"]:
        size *= n
    draw = random.Random(1)
    images, labels = session.path(f"{model}_images.npy"), session.path(f"{model}_labels.npy")
    write_npy(images, "|u1", [count, *shape["image"]], draw.randbytes(count * size))
    write_npy(labels, "<i8", [count], array.array("q", draw.choices(range(CLASSES), k=count)).tobytes())
    return f"""
data: {{train: {{type: npy, arrays: {{image: {images}, labels: {labels}}}}}}}
model:
  type: classifier
  layers:{IMAGES[model]}"""


def language_model(shape, positions, layers):
    """Heads are those of layer_defaults."""
    head_size = shape["d_model"] // shape["heads"]
    return f"""
  type: lm
  num_layers: {shape["layers"]}
  d_model: {shape["d_model"]}
  max_length: {shape["length"]}
  positions: {positions}
  vocab_divisor: {shape["vocabulary"]}
  z_loss: 0
  block: [SelfAttention, {layers}]
  layer_defaults:
    SelfAttention: {{num_heads: {shape["heads"]}, key_value_size: {head_size}, rotary: {str(positions == "none").lower()}}}
"""


def lm(session, shape):
    text = session.path(f"text_{shape['length']}.txt")
    write_text(text, 20 * shape["rows"], shape["length"])
    return f"""
data: {{train: {{type: text, path: {text}}}, vocabulary: bytes, sequence_length: {shape["length"]}, packing: none}}
model: {language_model(shape, "learned", f"DenseReluDense: {{hidden_size: {shape['d_ff']}}}")}"""


def encoder_decoder(session, shape):
    text = session.path("pairs.txt")
    write_text(text, 20 * shape["rows"], shape["length"])
    attention = f"{{num_heads: {shape['heads']}, key_value_size: {shape['d_model'] // shape['heads']}}}"
    return f"""
data:
  train: {{type: parallel, inputs: {text}, targets: {text}}}
  vocabulary: bytes
  sequence_length: {shape["length"]}
  packing: none
model:
  type: bitransformer
  encoder: {{num_layers: {shape["layers"]}, block: [SelfAttention, DenseReluDense]}}
  decoder: {{num_layers: {shape["layers"]}, block: [SelfAttention, EncDecAttention, DenseReluDense]}}
  d_model: {shape["d_model"]}
  max_length: {shape["length"]}
  positions: learned
  vocab_divisor: {shape["vocabulary"]}
  z_loss: 0
  layer_defaults:
    SelfAttention: {attention}
    EncDecAttention: {attention}
    DenseReluDense: {{hidden_size: {shape["d_ff"]}}}
"""


def experts_model(session, shape, dense):
    """With `dense`, a feed-forward layer of the size that a token uses in place of the experts."""
    text = session.path("experts.txt")
    write_text(text, 40 * shape["rows"], shape["length"])
    layer = f"DenseReluDense: {{hidden_size: {shape['chosen'] * shape['size']}, activation: {shape['activation']}}}"
    if not dense:
        layer = (
            f"MoE1D: {{gating: top_k, num_experts: {shape['experts']}, experts_per_token: {shape['chosen']}, "
            f"hidden_size: {shape['size']}, activation: {shape['activation']}}}"
        )
    return f"""
data: {{train: {{type: text, path: {text}}}, vocabulary: bytes, sequence_length: {shape["length"]}}}
model: {language_model(shape, "none", layer)}"""


def write(session, model, path, optimizer, dense=False, **sizes):
    """Writes the data and the YAML of a model, whose training has no last step; returns the path of the YAML. `sizes` replace
    those of peers/shapes.py."""
    shape = {**SHAPES[model], **sizes}
    if model in IMAGES:
        text = image_model(session, model)
    elif model == "lm":
        text = lm(session, shape)
    elif model == "encdec":
        text = encoder_decoder(session, shape)
    else:
        text = experts_model(session, shape, dense)
    text += f"""
optimizer: {optimizer}
learning_rate: 0.001
train: {{steps: 100000000, batch_size: {shape["rows"]}, log_every: 1}}
checkpoint: {{every: 0}}
"""
    return session.write(path, text)

#!/usr/bin/env python3
"""Makes a tiny random image network, and what `transformers` computes with it: make_hf_images.py vit|dinov2|resnet|convnext DIRECTORY

The directory gets config.json, model.safetensors (save_pretrained), preprocessor_config.json and reference.safetensors:
  input/image     four images [4, rows, cols, 3], as the network is given them
  input/labels    zeros
  output/logits   float32 logits, [4, classes]
"""
import json
import os
import sys

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

kind, directory = sys.argv[1:]
torch.manual_seed(5)
names = dict(enumerate(["cat", "dog", "a hen", "fish", "owl", "lynx"]))
if kind == "vit":
    rows, cols = 6, 9
    model = transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, image_size=(rows, cols), patch_size=(2, 3),
        id2label=names))
    processor = {"image_processor_type": "ViTImageProcessor", "size": {"height": rows, "width": cols}, "do_center_crop": False}
elif kind == "dinov2":
    rows, cols = 6, 9
    model = transformers.Dinov2WithRegistersForImageClassification(transformers.Dinov2WithRegistersConfig(
        hidden_size=12, num_hidden_layers=2, num_attention_heads=3, mlp_ratio=2, image_size=(rows, cols), patch_size=(2, 3),
        num_register_tokens=3, layerscale_value=0.5, id2label=names))
    processor = {"image_processor_type": "ViTImageProcessor", "size": {"height": rows, "width": cols}, "do_center_crop": False}
elif kind == "convnext":
    rows, cols = 26, 33
    model = transformers.ConvNextForImageClassification(transformers.ConvNextConfig(
        num_stages=2, hidden_sizes=[6, 10], depths=[1, 2], patch_size=3, drop_path_rate=0.25, layer_scale_init_value=0.5,
        id2label=names))
    processor = {"image_processor_type": "ViTImageProcessor", "size": {"height": rows, "width": cols}, "do_center_crop": False}
else:
    rows, cols = 27, 27
    model = transformers.ResNetForImageClassification(transformers.ResNetConfig(
        embedding_size=6, hidden_sizes=[12, 21], depths=[2, 2], downsample_in_bottleneck=True, hidden_act="gelu", id2label=names))
    processor = {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 31}, "do_center_crop": True,
                 "crop_size": {"height": rows, "width": cols}}
with torch.no_grad():  # large enough that every weight matters
    for name, weight in model.named_parameters():
        spread = 0.2 if weight.dim() == 1 else 0.3 if weight.dim() < 4 else 1.5 / weight[0].numel() ** 0.5
        weight.copy_(spread * torch.randn_like(weight) + (1 if weight.dim() == 1 and name.endswith("weight") else 0))
        if name.endswith("mask_token"):  # no classifier reads it, and an export has zeros
            weight.zero_()
    for name, statistic in model.named_buffers():
        if name.endswith("running_mean"):
            statistic.copy_(0.3 * torch.randn_like(statistic))
        if name.endswith("running_var"):
            statistic.copy_(0.5 + torch.rand_like(statistic))
model.eval().save_pretrained(directory)
processor.update(do_resize=True, resample=2, do_rescale=True, rescale_factor=1 / 255, do_normalize=True,
                 image_mean=[0.5, 0.4, 0.3], image_std=[0.25, 0.2, 0.3])
with open(os.path.join(directory, "preprocessor_config.json"), "w") as file:
    json.dump(processor, file, indent=2)
    file.write("\n")

image = torch.randn(4, 3, rows, cols)
with torch.no_grad():
    logits = model(image).logits
save_file({"input/image": np.ascontiguousarray(image.permute(0, 2, 3, 1).numpy()), "input/labels": np.zeros(4, np.int32),
           "output/logits": logits.numpy()}, os.path.join(directory, "reference.safetensors"),
          {"made_with": f"transformers {transformers.__version__}, torch {torch.__version__}"})
print(f"logits up to {logits.abs().max():.2f}")

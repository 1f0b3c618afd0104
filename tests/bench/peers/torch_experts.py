"""Language models with experts: MixtralForCausalLM of transformers, and the same with experts whose rows are sorted by
expert."""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import MixtralConfig, MixtralForCausalLM


class GroupedExperts(nn.Module):
    """Rows are sorted by expert; those of an expert are multiplied by its matrices."""

    def __init__(self, shape):
        super().__init__()
        experts, size, d_model = shape["experts"], shape["size"], shape["d_model"]
        self.chosen, self.gated = shape["chosen"], shape["activation"] != "relu"
        self.gate = nn.Linear(d_model, experts, bias=False)
        self.wi = nn.Parameter(torch.randn(experts, d_model, 2 * size if self.gated else size) * d_model**-0.5)
        self.wo = nn.Parameter(torch.randn(experts, size, d_model) * size**-0.5)

    def forward(self, x):
        rows = x.flatten(0, -2)
        weights, choices = F.softmax(self.gate(rows), -1).topk(self.chosen, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        order = choices.flatten().argsort(stable=True)
        counts = torch.bincount(choices.flatten(), minlength=len(self.wi)).tolist()
        tokens = order // self.chosen
        results = []
        for mine, wi, wo in zip(rows[tokens].split(counts), self.wi.unbind(), self.wo.unbind(), strict=True):
            hidden = mine @ wi
            if self.gated:
                gate, linear = hidden.chunk(2, -1)
                hidden = F.silu(gate) * linear
            else:
                hidden = F.relu(hidden)
            results.append(hidden @ wo)
        y = torch.cat(results) * weights.flatten()[order].unsqueeze(-1)
        return torch.zeros_like(rows).index_add(0, tokens, y).view_as(x)


class ExpertsModel(nn.Module):
    def __init__(self, shape, grouped):
        super().__init__()
        self.network = MixtralForCausalLM(
            MixtralConfig(
                vocab_size=shape["vocabulary"], hidden_size=shape["d_model"], intermediate_size=shape["size"],
                num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"], num_key_value_heads=shape["heads"],
                num_experts_per_tok=shape["chosen"], num_local_experts=shape["experts"],
                max_position_embeddings=shape["length"], tie_word_embeddings=True, sliding_window=None, use_cache=False,
            )
        )  # fmt: skip
        if grouped:
            for layer in self.network.model.layers:
                layer.mlp = GroupedExperts(shape)

    def forward(self, _, targets):
        logits = self.network(input_ids=F.pad(targets[:, :-1], (1, 0))).logits
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

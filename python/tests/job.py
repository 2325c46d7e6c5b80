"""A training job, as a user would write it: what the tests run natively, recorded, by the heap and by a plan.

usage: job.py MODEL --out FILE.json [--steps N] [--device cpu|cuda] [--size small|large] …

FILE gets the losses, bit for bit, and what the allocator says of itself. Nothing in the loop depends on the allocator.
"""

import argparse
import json
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

import stweaver


class Moe(nn.Module):
    """Sizes depend on data: each expert takes the tokens routed to it."""

    def __init__(self, d, experts=8):
        super().__init__()
        self.router = nn.Linear(d, experts)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(experts))

    def forward(self, x):
        flat = x.view(-1, x.shape[-1])
        weight, chosen = self.router(flat).softmax(-1).topk(2)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            row, slot = torch.where(chosen == e)
            out.index_add_(0, row, expert(flat[row]) * weight[row, slot, None])
        return x + out.view_as(x)


class MoeLm(nn.Module):
    def __init__(self, d, layers, vocab):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(Moe(d) for _ in range(layers))
        self.head = nn.Linear(d, vocab)

    def forward(self, input_ids, labels):
        x = self.emb(input_ids)
        for b in self.blocks:
            x = b(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def build(model, large):
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
    if model == "llama":
        config = LlamaConfig(num_hidden_layers=24, max_position_embeddings=4096) if large else LlamaConfig(
            hidden_size=256, intermediate_size=704, num_hidden_layers=6, num_attention_heads=4, vocab_size=2000)
        net = LlamaForCausalLM(config)
        net.gradient_checkpointing_enable()
        net.config.use_cache = False
        return net
    if model == "moe":
        return MoeLm(1024, 4, 32000) if large else MoeLm(192, 3, 2000)
    config = GPT2Config(n_embd=1024, n_layer=24, n_head=16) if large else GPT2Config(
        n_embd=256, n_layer=4, n_head=4, vocab_size=2000, n_positions=256)
    return GPT2LMHeadModel(config)


def shape(model, step, large):
    """Of the batch of a step."""
    batch, seq = (8, 1024) if large else (4, 128)
    if model == "llama" and large:
        batch, seq = 4, 4096
    if model == "lengths":
        seq = seq // 4 * (1 + (step * 7) % 4)  # four lengths, in an order of their own
    return batch, seq


def keep_values(model):
    """What a program reads of the device to decide by (masks, positions) is real, not what memory happens to hold."""
    from harness import SHARED
    sys.path.insert(0, str(SHARED / "phantom"))
    from values import Values
    values = Values()
    values.cover(model)
    for m in model.modules():
        if type(m).__name__.endswith("DecoderLayer"):
            values.cover(m)  # recomputed outside the model's forward


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model", choices=("gpt2", "llama", "moe", "lengths", "eval"))
    p.add_argument("--out", required=True)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--device", default="cpu")
    p.add_argument("--size", default="small")
    p.add_argument("--values", action="store_true", help="on the phantom GPU: small integer tensors keep real values")
    args = p.parse_args()
    large = args.size == "large"
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with torch.device(args.device):
        torch.set_default_dtype(torch.bfloat16 if large else torch.float32)
        model = build(args.model, large)
        torch.set_default_dtype(torch.float32)
    model.train()
    if args.values:
        keep_values(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    vocab = 1000
    data = torch.Generator().manual_seed(1)
    losses, seconds = [], []

    def loss_of(ids):
        out = model(input_ids=ids, labels=ids)
        return out if torch.is_tensor(out) else out.loss

    for step in range(args.steps):
        began = time.perf_counter()
        stweaver.step()
        ids = torch.randint(vocab, shape(args.model, step, large), generator=data).to(args.device)
        loss = loss_of(ids)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
        if args.model == "eval" and step % 4 == 3:
            with stweaver.phase("evaluation"), torch.no_grad():
                model.eval()
                ids = torch.randint(vocab, (2, shape("gpt2", step, large)[1]), generator=data).to(args.device)
                losses.append(loss_of(ids).item().hex())
                model.train()
        seconds.append(time.perf_counter() - began)
    result = {"losses": losses, "seconds": sorted(seconds)[len(seconds) // 2], "stats": stweaver.stats(), "conf": os.environ.get("STWEAVER_CONF", "")}
    if args.device == "cuda":
        result["allocated"], result["reserved"] = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    with open(args.out, "w") as f:
        json.dump(result, f)


if __name__ == "__main__":
    main()

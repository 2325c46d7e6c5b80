"""A small GPT with recomputation, trained on a GPU: natively, recorded, by a plan. Driven by run.sh.

usage: gpt.py --out FILE.json [--steps N] [--mode native|record|plan|heap] [--profile FILE] [--plan FILE] [--report]
       gpt.py --probe          prints the free bytes of the device, once the context is there

FILE gets every loss to the last bit, what was reserved, the time a step took, and what the allocator says of itself.
"""

import argparse
import json
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.before(x)).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        # Written out: the fused kernels add up in an order of their own.
        score = (q @ k.transpose(-2, -1) * (w // self.heads) ** -0.5).masked_fill(self.mask(n, x.device), float("-inf"))
        x = x + self.out((score.softmax(-1) @ v).transpose(1, 2).reshape(b, n, w))
        return x + self.down(F.gelu(self.up(self.after(x))))

    @staticmethod
    def mask(n, device):
        return torch.ones(n, n, dtype=torch.bool, device=device).triu(1)


class Gpt(nn.Module):
    def __init__(self, layers=12, width=768, heads=12, words=8192, length=512):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, ids):
        x = F.embedding(ids, self.words.weight) + self.places
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(self.norm(x))


def train(steps, step_begins):
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    with torch.device("cuda"):
        model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    batches = torch.randint(0, 8192, (steps, 8, 513), generator=torch.Generator().manual_seed(1))
    losses, seconds = [], []
    for ids in batches:
        step_begins()
        began = time.perf_counter()
        ids = ids.cuda()
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item().hex())
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return losses, sorted(seconds)[len(seconds) // 2]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out")
    p.add_argument("--probe", action="store_true")
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--mode", default="native", choices=("native", "record", "plan", "heap"))
    p.add_argument("--profile")
    p.add_argument("--plan")
    args = p.parse_args()
    if args.probe:
        torch.cuda.synchronize()
        print(torch.cuda.mem_get_info()[0])
        return
    step_begins, stats = lambda: None, dict
    if args.mode != "native":
        import stweaver
        stweaver.install(mode=args.mode, plan=args.plan, record=args.profile, time=1, report=0)
        step_begins, stats = stweaver.step, stweaver.stats
    losses, seconds = train(args.steps, step_begins)
    json.dump({"losses": losses, "seconds": seconds, "reserved": torch.cuda.max_memory_reserved(),
               "allocated": torch.cuda.max_memory_allocated(), "device": torch.cuda.get_device_name(), "torch": torch.__version__,
               "stats": stats()}, open(args.out, "w") if args.out else sys.stdout)


if __name__ == "__main__":
    main()

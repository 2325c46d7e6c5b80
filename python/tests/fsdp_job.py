"""One rank of a world of eight that does not exist: FSDP2 of a Llama 7B shape, on the phantom GPU.

usage: fsdp_job.py --out FILE.json [--layers 32] [--seq 4096] [--steps 5] [--checkpoint]
"""

import argparse
import json

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import LlamaConfig, LlamaForCausalLM

import stweaver


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True)
    p.add_argument("--layers", type=int, default=32)
    p.add_argument("--seq", type=int, default=4096)
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--checkpoint", action="store_true")
    args = p.parse_args()
    torch.cuda.set_device(0)
    dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=args.layers, max_position_embeddings=4096))
    if args.checkpoint:
        model.gradient_checkpointing_enable()
        model.config.use_cache = False
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model.to_empty(device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(args.steps):
        stweaver.step()
        ids = torch.randint(1000, (1, args.seq)).cuda()
        model(input_ids=ids, labels=ids).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
    with open(args.out, "w") as f:
        json.dump({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(),
                   "stats": stweaver.stats()}, f)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

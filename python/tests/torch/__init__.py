"""Tests of torch tensors and torch.ops.kvc."""

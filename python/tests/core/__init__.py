"""Torch-free tests."""

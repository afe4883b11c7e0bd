"""Tests of kvc.transformers."""

"""Tests of kvc.kvpress."""

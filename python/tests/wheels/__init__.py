"""Tests of the wheels that tools/wheels makes, where nothing but them is installed."""

"""kvc-opt, for the package kvc, which finds it here."""

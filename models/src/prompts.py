"""Held-out prompts as JSON lines, as those in ../tasks, any number of them.

Usage: prompts.py MODEL_DIR TOKENS N SEED [task ...] > FILE.jsonl"""
import json
import random
import sys

import tasks


def main():
    folder, length, n, seed = sys.argv[1], *map(int, sys.argv[2:5])
    tok = tasks.Tokenizer.load(folder)
    for task in sys.argv[5:] or tasks.TASKS:
        r = random.Random("%d %s" % (seed, task))
        for _ in range(n):
            print(json.dumps(tasks.prompt(r, tok, task, length)))


if __name__ == "__main__":
    main()

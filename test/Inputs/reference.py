"""reference.py MODEL JSON: kvc-run at full cache against MODEL/reference.json.
Logits are sums of about 128 fp32 products of size 10: 128 * 2^-24 * 10."""
import json
import subprocess
import sys

model, out = sys.argv[1:3]
for prompt in json.load(open(model + "/reference.json"))["prompts"]:
    subprocess.run(["kvc-run", "generate", "--model", model, "--prompt", prompt["text"],
                    "--max-new-tokens", str(len(prompt["greedy"])), "--ignore-eos",
                    "--json", out], check=True, capture_output=True)
    got = json.load(open(out))
    assert got["prompt_tokens"] == prompt["prompt"], prompt["task"]
    assert got["tokens"] == prompt["greedy"], (got["tokens"], prompt["greedy"])
    for (token, logit), (want_token, want) in zip(got["top"], prompt["top5"], strict=True):
        assert token == want_token and abs(logit - want) < 128 * 2**-24 * 10, (logit, want)

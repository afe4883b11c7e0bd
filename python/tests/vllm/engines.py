"""What tests of kvc.vllm need: a tiny model, what transformers answers, and engines."""

import contextlib
import functools
import os
import tempfile

import torch
import transformers
from vllm import LLM, SamplingParams
from vllm.distributed import cleanup_dist_env_and_memory

from kvc.transformers import KvcCache

CORES = sorted(os.sched_getaffinity(0))  # one for each worker; asked before any engine binds threads
BLOCK = 32
BUDGET = 70  # beyond the windows of policies, so that they rank
LENGTHS = (200, 170, 150, 129, 64, 33, 96, 111)
MOST = 256  # tokens of a request
NEW = 48
SMALL = 1 + 12  # blocks, the null block among them: three requests fit, until they grow
SMALL_BY_HEAD = 1 + 15  # the same where heads have pages of their own
SIZES = dict(
    hidden_size=128, intermediate_size=96, num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=4,
    head_dim=32, vocab_size=300, max_position_embeddings=2048, pad_token_id=0, bos_token_id=1, eos_token_id=None,
)  # fmt: skip
EQUAL = {
    "criticalkv", "criticalkv-kvpress", "expected_attention", "full", "h2o", "keydiff", "knorm", "kvec", "lagkv",
    "snapkv", "snapkv-kvpress", "streaming_llm", "tova",
}  # fmt: skip
"""The shipped policies that keep as many rows in every head."""
BY_HEAD = {"adakv", "adakv-kvpress", "adakv-paper", "critical_adakv", "defensivekv"}
"""Those that keep as many rows in every layer, shared out among its heads."""
BY_LAYER = {"ada_pyramidkv", "critical_headkv", "headkv", "pyramidkv", "pyramidkv-author"}
"""Those whose layers keep different numbers of rows, which follow from lengths, budget and table."""
SERVED = EQUAL | BY_HEAD | BY_LAYER
TABLE = [[1 + (3 * layer + head) % 7 for head in range(8)] for layer in range(3)]
"""Importance of heads."""
ACROSS_HEADS = {"criticalkv-kvpress", "kvec", "tova"}
"""Of those with equal counts, those in which a head's rows depend on other heads."""


@functools.cache
def model():
    """A random model, its weights large enough that tokens differ; in transformers, and the
    folder that it is read from."""
    folder = tempfile.TemporaryDirectory()
    return _make(folder.name), folder


@contextlib.contextmanager
def model_of(**sizes):
    """Another model and its folder."""
    with tempfile.TemporaryDirectory() as folder:
        yield _make(folder, **sizes), folder


def _make(folder, **sizes):
    torch.manual_seed(1)
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SIZES, **sizes})).eval()
    with torch.no_grad():
        for weight in llama.parameters():
            if weight.dim() == 2:
                weight.mul_(3.0)
    llama.save_pretrained(folder)
    llama.set_attn_implementation("kvc")
    return llama


@functools.cache
def prompts():
    torch.manual_seed(2)
    return [torch.randint(3, 300, (length,)).tolist() for length in LENGTHS]


def answers(policy, budget=BUDGET, new=NEW, which=None, of=None):
    """What transformers answers, prompt by prompt; without a policy, what it answers from all."""
    llama = model()[0] if of is None else of
    out = []
    for prompt in prompts() if which is None else which:
        ids = torch.tensor([prompt])
        cache = None if policy is None else KvcCache(llama, policy, budget, table=torch.tensor(TABLE).float())
        with torch.no_grad():
            tokens = llama.generate(
                ids, attention_mask=torch.ones_like(ids), past_key_values=cache, max_new_tokens=new, do_sample=False
            )
        out.append(tokens[0, len(prompt) :].tolist())
    return out


class Engine:
    """An engine of vLLM, its scheduler looked at."""

    def __init__(self, llm):
        self.llm = llm
        self.core = llm.llm_engine.engine_core.engine_core
        self.scheduler = self.core.scheduler
        self.preemptions = 0
        """Of requests that had decoded tokens behind an eviction: these must see the same again."""
        preempt = self.scheduler._preempt_request

        def counted(request, *args, **kwargs):
            self.preemptions += request.num_prompt_tokens > BUDGET and request.num_output_tokens > 0
            return preempt(request, *args, **kwargs)

        self.scheduler._preempt_request = counted

    def answers(self, some=None, new=NEW):
        sampling = SamplingParams(temperature=0, max_tokens=new, ignore_eos=True, detokenize=False)
        inputs = [{"prompt_token_ids": prompt} for prompt in (prompts() if some is None else some)]
        outputs = self.llm.generate(inputs, sampling, use_tqdm=False)
        return [list(output.outputs[0].token_ids) for output in outputs]

    @contextlib.contextmanager
    def chunks(self, tokens):
        """Steps of so many tokens for a while, as max_num_batched_tokens makes them."""
        whole = self.scheduler.max_num_scheduled_tokens
        self.scheduler.max_num_scheduled_tokens = tokens
        yield
        self.scheduler.max_num_scheduled_tokens = whole

    def blocks_in_use(self):
        pool = self.scheduler.kv_cache_manager.block_pool
        return self.scheduler.kv_cache_config.num_blocks - 1 - pool.get_num_free_blocks()

    def held(self):
        """Prompts whose chunks layers hold, of an engine with one worker."""
        return sum(len(layer._coming) for layer in self.layers())

    def layers(self):
        """What attends, layer by layer."""
        worker = self.core.model_executor.driver_worker.worker
        return [layer.impl for layer in worker.vllm_config.compilation_config.static_forward_context.values()]


@contextlib.contextmanager
def engine(policy=None, budget=BUDGET, *, workers=1, params=None, **more):
    """An engine that evicts; without a policy, a stock one."""
    kvc = {"policy": policy, "budget": budget, **({"params": params} if params else {})}
    if policy is not None and "headkv" in policy:
        kvc["table"] = TABLE
    cores = [CORES[rank % len(CORES)] for rank in range(workers)]
    os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "|".join(map(str, cores)) if workers > 1 else "auto"
    options = dict(
        skip_tokenizer_init=True, dtype="float32", enforce_eager=True, max_model_len=MOST, block_size=BLOCK,
        kv_cache_memory_bytes=64 << 20, tensor_parallel_size=workers,
        additional_config={} if policy is None else {"kvc": kvc},
    )  # fmt: skip
    llm = None
    try:
        llm = LLM(**{"model": model()[1].name, **options, **more})
        yield Engine(llm)
    finally:
        if llm is not None:
            llm.llm_engine.engine_core.shutdown()
        del llm
        cleanup_dist_env_and_memory()

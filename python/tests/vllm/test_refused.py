"""What kvc.vllm does not do is refused when an engine starts, in one line that names it."""

import pathlib
import subprocess
import sys
import tempfile
from types import SimpleNamespace

import torch
import transformers

import kvc
from kvc.vllm.engine import check_engine
from kvc.vllm.options import Options
from kvc.vllm.policies import accept

from ..support import Case, environment
from .engines import ACROSS_HEADS, BUDGET, BY_LAYER, EQUAL, SERVED, SIZES, TABLE, engine, model

_ENGINE = "additional_config['kvc'] must be for an engine that it can compact, got "


class Changed:
    """A configuration of which one value is another."""

    def __init__(self, real, path, value):
        self._real, self._path, self._value = real, path, value

    def __getattr__(self, name):
        real = getattr(self._real, name)
        if name != self._path[0]:
            return real
        return self._value if len(self._path) == 1 else Changed(real, self._path[1:], self._value)


class Refused(Case):
    def start(self, policy="snapkv", budget=BUDGET, **more):
        with engine(policy, budget, **more):
            pass

    def family(self, name, **more):
        """The folder of a model of another family."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        config = getattr(transformers, f"{name}Config")(**{**SIZES, **more})
        getattr(transformers, f"{name}ForCausalLM")(config).save_pretrained(folder.name)
        return folder.name


class TestPolicies(Refused):
    def accepted(self, policy, workers=1, table=TABLE):
        options = Options(policy, BUDGET, table=table and tuple(map(tuple, table)))
        kv_heads = 4 // workers
        model = {"head_dim": 32, "group": 2, "kv_heads": kv_heads, "layers": 3, "dtype": torch.float32}
        return accept(options, workers=workers, **model)[1]

    def test_uneven_counts(self):
        refused = {}
        for policy in sorted(kvc.policies()):
            with self.subTest(policy):
                if policy in SERVED:
                    options = self.accepted(policy)
                    self.assertEqual(options.keeps_all, policy == "full")
                    self.assertEqual(options.by_head, policy not in EQUAL)
                    self.assertEqual(options.counts is not None, policy in BY_LAYER)
                    self.assertEqual(options.table is not None, "headkv" in policy)
                    continue
                with self.assertRaises(kvc.UnsupportedError) as caught:
                    self.accepted(policy)
                line = refused[policy] = str(caught.exception)
                self.assertNotIn("\n", line)
                self.assertIn(repr(kvc.compile(policy, head_dim=32, group=2).name), line)
        # Its authors' rounding: a few rows more or less, as scores have it.
        line = "in the heads of each layer as many rows as the lengths and the budget say, got 'adakv_author': [["
        self.assertIn(line, refused["adakv-author"])
        self.assertIn("of 200 tokens in the heads of 3 layers at a budget of 40", refused["adakv-author"])
        self.assertIn("must only drop rows, got 'ems', which merges them", refused["ems"])
        with self.refused(kvc.UnsupportedError, refused["adakv-author"]):
            self.start("adakv-author")

    def test_table(self):
        line = (
            "policy 'headkv' reads the importance of heads: additional_config['kvc']['table'] must be "
            "[layers 3, q_heads 8], got {}"
        )
        for table, got in ((None, "None"), (TABLE[:2], "[2, 8]"), ([row[:4] for row in TABLE], "[3, 4]")):
            with self.subTest(got), self.refused(kvc.ArgumentError, line.format(got)):
                self.accepted("headkv", table=table)
        with self.refused(kvc.ArgumentError, line.format("None")):
            self.start("headkv", additional_config={"kvc": {"policy": "headkv", "budget": BUDGET}})

    def test_across_heads(self):
        line = "a policy must rank each head by itself, got {!r}, which {}, and 2 workers"
        for policy in sorted(SERVED):
            with self.subTest(policy):
                self.accepted(policy)
                if policy in EQUAL - ACROSS_HEADS:
                    self.accepted(policy, workers=2)
                    continue
                what = "keeps more rows in some layers than in others" if policy[0] == "p" else "looks across heads"
                with self.refused(kvc.UnsupportedError, line.format(policy.replace("-", "_"), what)):
                    self.accepted(policy, workers=2)

    def test_workers_of_their_own(self):
        # As engines start where nothing else is said: each part a process, which logs the line.
        program = (
            "from vllm import LLM\n"
            "if __name__ == '__main__':\n"
            f"    LLM({model()[1].name!r}, skip_tokenizer_init=True, dtype='float32', enforce_eager=True,\n"
            "        max_model_len=256, block_size=32, kv_cache_memory_bytes=64 << 20, tensor_parallel_size=2,\n"
            "        additional_config={'kvc': {'policy': 'tova', 'budget': 70}})\n"
        )
        processes = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_ENABLE_V1_MULTIPROCESSING": None}
        with tempfile.TemporaryDirectory() as folder, environment(**processes):
            path = pathlib.Path(folder) / "start.py"
            path.write_text(program)
            done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=600)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("got 'tova', which looks across heads, and 2 workers", done.stdout + done.stderr)

    def test_text(self):
        text = kvc.policies()["snapkv"].read_text()
        with self.assertRaisesRegex(kvc.CompileError, "custom op 'kvc.pull' is unknown"):
            self.start(text.replace("kvc.pool", "kvc.pull"))
        with self.assertRaisesRegex(kvc.NotFoundError, "got 'snap'"):
            self.start("snap")


class TestOptions(Refused):
    def test_options(self):
        for given, line in (
            ("snapkv", "additional_config['kvc'] must be a mapping, got str"),
            ({"policy": "snapkv"}, "additional_config['kvc'] must have 'budget', got ['policy']"),
            ({"policy": "snapkv", "budget": 70, "window": 8}, "has policy, budget, params and table, got 'window'"),
            ({"policy": 3, "budget": 70}, "a policy must be a name, a file or a text, got 3"),
            ({"policy": "snapkv", "budget": 0}, "a budget must be a whole number of 1 to 2147483647, got 0"),
            ({"policy": "snapkv", "budget": 1.5}, "a share above 0 and up to 1, got 1.5"),
            ({"policy": "snapkv", "budget": 70, "params": [8]}, "params must be a mapping, got list"),
            ({"policy": "headkv", "budget": 70, "table": 3}, "table must be [layers, q_heads] numbers, got 3"),
            (
                {"policy": "headkv", "budget": 70, "table": [[1], [1, 2]]},
                "[layers, q_heads] numbers, got [[1], [1, 2]]",
            ),
        ):
            with self.subTest(line), self.refused(kvc.ArgumentError, line):
                with engine(additional_config={"kvc": given}):
                    pass


class TestEngine(Refused):
    def test_engine(self):
        for line, more in {
            "the attention backend TRITON_ATTN": {"attention_backend": "TRITON_ATTN"},
            "a quantised cache": {"kv_cache_dtype": "fp8"},
            "prompt embeddings": {"enable_prompt_embeds": True},
            "LoRA": {"enable_lora": True},
            "a KV connector": {"kv_transfer_config": {"kv_connector": "ExampleConnector", "kv_role": "kv_both"}},
        }.items():
            with self.subTest(line), self.refused(kvc.UnsupportedError, _ENGINE + line):
                self.start(**more)

    def test_configuration(self):
        # Each by itself, put into the configuration of an engine that was started.
        with engine() as stock:
            config = stock.core.vllm_config
        check_engine(config)
        for line, (path, value) in {
            "weights quantised by fp8": ("model_config.quantization", "fp8"),
            "a sliding window": ("cache_config.sliding_window", 128),
            "a multimodal model": ("model_config.is_multimodal_model", True),
            "a model that is run for pooling": ("model_config.runner_type", "pooling"),
            "speculative decoding": ("speculative_config", SimpleNamespace(method="ngram")),
            "KV events": ("kv_events_config", SimpleNamespace(enable_kv_cache_events=True)),
            "KV offloading": ("cache_config.kv_offloading_size", 1.0),
            "fast prefill of shared caches": ("cache_config.kv_sharing_fast_prefill", True),
            "pipeline parallelism": ("parallel_config.pipeline_parallel_size", 2),
            "data parallelism": ("parallel_config.data_parallel_size", 2),
            "context parallelism": ("parallel_config.decode_context_parallel_size", 2),
            "more workers than KV heads": ("parallel_config.tensor_parallel_size", 8),
            "asynchronous scheduling": ("scheduler_config.async_scheduling", True),
            "the V2 model runner (VLLM_USE_V2_MODEL_RUNNER=0 chooses the other)": ("use_v2_model_runner", True),
        }.items():
            with self.subTest(line), self.refused(kvc.UnsupportedError, _ENGINE + line):
                check_engine(Changed(config, path.split("."), value))

    def test_models(self):
        for name, line, more in (
            ("Mistral", "a sliding window", {"sliding_window": 24}),
            (
                "Gemma2",
                "a soft cap of 50.0 in model.layers.0",
                {"attn_logit_softcapping": 50.0, "layer_types": ["full_attention"] * 3},
            ),
        ):
            with self.subTest(line), self.assertRaises(kvc.UnsupportedError) as caught:
                self.start(model=self.family(name, **more))
            self.assertIn(line, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))

    def test_another_version(self):
        # Nothing of vLLM's is touched but for engines that ask for kvc; these are refused.
        program = (
            "import vllm\n"
            "vllm.__version__ = '0.99.1'\n"
            "import sys\n"
            "from tests.vllm.engines import engine\n"
            "from vllm.v1.attention.backends.registry import AttentionBackendEnum\n"
            "with engine() as stock:\n"
            "    assert not AttentionBackendEnum.CPU_ATTN.is_overridden()\n"
            "    assert stock.answers([[5, 6, 7]], 2)\n"
            "print('stock runs')\n"
            "with engine('snapkv'):\n"
            "    pass\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
        self.assertIn("stock runs", done.stdout, done.stderr)
        self.assertTrue(
            done.stderr.strip().endswith(
                "kvc.errors.UnsupportedError: vLLM must be 0.32, which kvc is tested with, got 0.99.1"
            ),
            done.stderr,
        )


class TestEntryPoint(Case):
    def test_is_installed(self):
        from importlib.metadata import entry_points

        (ours,) = entry_points(group="vllm.general_plugins", name="kvc")
        self.assertEqual(ours.value, "kvc.vllm:register")

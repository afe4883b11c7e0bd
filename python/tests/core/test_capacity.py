"""What does not fit is dropped, and the status word says so: nothing is written behind it."""

import unittest

import numpy as np

from kvc import _abi
from kvc._layer import LayerCall

from ..support import Case, layer, planned


class TestCapacity(Case):
    """SnapKV keeps 50 of 100 tokens in each of 2 heads."""

    def setUp(self):
        self.plan = planned()
        self.q, self.k, self.v = layer()

    def evict(self, indices=100, rows=100, slack=0):
        """One layer with room for `indices` tokens of a head and `rows` rows in all."""
        i32 = np.int32
        self.indices, self.counts = np.full((1, 2, 100), -1, i32), np.zeros((1, 2), i32)
        self.status, self.offsets = np.zeros(1, i32), np.zeros((1, 2), i32)
        self.k_out, self.v_out = (np.full((1, 200, 16), np.nan, np.float32) for _ in "kv")
        call = LayerCall(self.plan, self.k, 0, 1, 0.0, slack)
        call.sequences(np.array([100], i32), np.array([50], i32))
        call.cache("v", self.v)
        call.query_rows(self.q)
        call.selection(self.indices[:, :, :indices].copy(), self.counts, np.zeros(1, i32), self.status)
        call.compacted(self.k_out, self.v_out, self.offsets)
        call.args.out_rows = rows
        call.workspace(np.zeros(self.plan.workspace_bytes, np.uint8))
        call.run("kvc_layer_evict")
        return int(self.status[0])

    def written(self):
        return int((~np.isnan(self.k_out)).all(axis=2).sum())

    def test_all_fits(self):
        self.assertEqual(self.evict(), 0)
        self.assertEqual(self.written(), 100)

    def test_rows_are_cut(self):
        self.assertEqual(self.evict(rows=80), _abi.DATA_CAPACITY)
        self.assertEqual(self.offsets.tolist(), [[0, 50]])
        self.assertEqual(self.written(), 80)

    def test_slack_takes_room(self):
        self.assertEqual(self.evict(rows=104, slack=4), 0)
        self.assertEqual(self.evict(rows=104, slack=5), _abi.DATA_CAPACITY)
        self.assertEqual(self.offsets.tolist(), [[0, 55]])

    def test_a_whole_head_is_cut(self):
        self.assertEqual(self.evict(rows=50), _abi.DATA_CAPACITY)
        self.assertEqual(self.written(), 50)

    def test_lists_are_cut(self):
        self.assertEqual(self.evict(indices=30), _abi.DATA_CAPACITY)
        self.assertEqual(self.counts.tolist(), [[30, 30]])
        self.assertEqual(self.written(), 60)


if __name__ == "__main__":
    unittest.main()

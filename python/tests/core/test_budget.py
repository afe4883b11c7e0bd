import unittest
from decimal import Decimal
from fractions import Fraction

import numpy as np

import kvc
from kvc.budget import tokens_of

from ..support import Case


class TestBudget(Case):
    def test_numbers(self):
        for budget in (1, 80, np.int64(80), 2**31 - 1):
            self.assertEqual(tokens_of(budget, 200), budget)

    def test_shares_are_exact(self):
        # In binary 0.29 * 100 is just below 29.
        for share in (0.29, "0.29", Decimal("0.29"), Fraction(29, 100)):
            self.assertEqual(tokens_of(share, 100), 29)
        self.assertEqual(tokens_of(1.0, 7), 7)
        self.assertEqual(tokens_of(Fraction(1, 3), 100), 33)

    def test_refused(self):
        for budget in (0, -1, 2**31):
            with self.refused(kvc.ArgumentError, f"a budget must be a whole number of 1 to 2147483647, got {budget}"):
                tokens_of(budget, 100)
        for budget in (1.5, -0.1, 0.0, True, None, "many", "80", float("nan"), float("inf")):
            rule = "a budget must be a number of tokens or a share above 0 and up to 1, got " + repr(budget)
            with self.refused(kvc.ArgumentError, rule):
                tokens_of(budget, 100)
        with self.refused(kvc.ArgumentError, "a budget must leave at least 1 token, got 0.1 of 9 tokens"):
            tokens_of(0.1, 9)


if __name__ == "__main__":
    unittest.main()

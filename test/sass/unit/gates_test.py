import pathlib
import tempfile
import unittest

import text  # finds the modules
from checks import CHECKS, Finding
from gates import (Line, Table, Wrong, distance, judge, read_goals, read_table, renew,
                   write_table)
from subjects import all_subjects

HERE = pathlib.Path(text.__file__).resolve().parents[1]
GOALS = {"slots per HMMA": 4.0, "loads in flight": 4.0, "divisions": 0.0}
HEAD = "# measured with ptxas 13.0\nkernel,check,limit,reason\n"


def table(*lines):
    return Table("13.0", {line[:2]: Line(*line, "because") for line in lines})


def found(**values):
    """Of a kernel k; the name of a check with _ in the place of spaces."""
    return {("k", name.replace("_", " ")): Finding(value, "the loop at 0010")
            for name, value in values.items()}


class Judging(unittest.TestCase):
    def check(self, findings, lines, *wrong):
        said = judge(findings, GOALS, table(*lines))
        self.assertEqual(len(said), len(wrong), said)
        for one, expected in zip(said, wrong):
            self.assertIn(expected, one)

    def test_goals(self):
        self.check(found(slots_per_HMMA=4, loads_in_flight=4), [])
        self.check(found(slots_per_HMMA=4.01), [],
                   "k: slots per HMMA: 4.01 in the loop at 0010, must be at most 4")
        self.check(found(loads_in_flight=3.99), [], "3.99 in the loop at 0010, must be at least 4")

    def test_lines(self):
        slots, loads = ("k", "slots per HMMA", 10.0), ("k", "loads in flight", 2.0)
        self.check(found(slots_per_HMMA=10, loads_in_flight=2), [slots, loads])
        self.check(found(slots_per_HMMA=10.01), [slots], "must be at most 10, its line")
        self.check(found(loads_in_flight=1.9), [loads], "must be at least 2, its line")

    def test_what_became_better(self):
        slots, loads = ("k", "slots per HMMA", 10.0), ("k", "loads in flight", 2.0)
        self.check(found(slots_per_HMMA=9.6, loads_in_flight=2.1), [slots, loads])
        self.check(found(slots_per_HMMA=9.4), [slots], "better than its line, 10")
        self.check(found(loads_in_flight=2.2), [loads], "better than its line, 2")
        self.check(found(slots_per_HMMA=4), [slots], "meets the goal, 4: the line must go")
        self.check(found(divisions=2), [("k", "divisions", 3.0)], "better than its line, 3")

    def test_lines_that_nothing_uses(self):
        self.check(found(divisions=0), [("gone", "divisions", 3.0)],
                   "gone: divisions: a line of the table for what is not there")


class Renewing(unittest.TestCase):
    slots = ("k", "slots per HMMA", 10.0)

    def renew(self, findings, lines, because=""):
        new, without = renew(findings, GOALS, table(*lines), "13.1", because)
        return [(line.limit, line.reason) for line in new.lines.values()], len(without)

    def test_tighter_lines_keep_their_reason(self):
        self.assertEqual(self.renew(found(slots_per_HMMA=8), [self.slots]), ([(8, "because")], 0))
        self.assertEqual(self.renew(found(slots_per_HMMA=8), [self.slots], "new"),
                         ([(8, "because")], 0))

    def test_met_goals_and_gone_kernels_have_no_line(self):
        self.assertEqual(self.renew(found(slots_per_HMMA=4), [self.slots]), ([], 0))
        self.assertEqual(self.renew({}, [self.slots]), ([], 0))

    def test_looser_and_new_lines_need_a_reason(self):
        self.assertEqual(self.renew(found(slots_per_HMMA=11), [self.slots]), ([], 1))
        self.assertEqual(self.renew(found(slots_per_HMMA=11), []), ([], 1))
        self.assertEqual(self.renew(found(slots_per_HMMA=11), [self.slots], "new"),
                         ([(11, "because; new")], 0))
        self.assertEqual(self.renew(found(slots_per_HMMA=11), [], "new"), ([(11, "new")], 0))

    def test_a_reason_is_said_once(self):
        self.assertEqual(self.renew(found(slots_per_HMMA=11), [self.slots], "because"),
                         ([(11, "because")], 0))


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name) / "gates/x.csv"

    def read(self, content):
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(content)
        return read_table(self.path)

    def test_written_and_read(self):
        lines = table(("k", "slots per HMMA", 12345.67), ("k", "loads in flight", 1.0),
                      ("k", "divisions", 10.0))
        write_table(self.path, lines)
        self.assertEqual(read_table(self.path), lines)
        write_table(self.path, Table("13.0"))
        self.assertFalse(self.path.exists())
        self.assertEqual(read_table(self.path).lines, {})

    def test_rules(self):
        for content, rule in (
                ("", "the first line must say '# measured with ptxas N.N', found ''"),
                ("# measured with ptxas 13.0\na,b\n", "columns must be kernel, check, limit, "
                                                      "reason, found a, b"),
                (HEAD, "a table must have a row"),
                (HEAD + "k,divisions,1\n", "row 2 must have 4 columns, has 3"),
                (HEAD + "k,sevens,1,r\n", "row 2 must name a check, got 'sevens'"),
                (HEAD + "k,divisions,1, \n", "row 2 must have a reason, it is empty"),
                (HEAD + "k,divisions,x,r\n", "must be a number with two decimals at most, "
                                             "got 'x'"),
                (HEAD + "k,divisions,1.001,r\n", "two decimals at most, got '1.001'"),
                (HEAD + "k,divisions,1,r\nk,divisions,2,r\n",
                 "row 3 must be the only one of k, divisions")):
            with self.assertRaisesRegex(Wrong, rule.replace("(", r"\(")):
                self.read(content)

    def test_rules_of_goals(self):
        head = "check,limit,meaning\n"
        for content, rule in ((head + "sevens,1,m\n", "must name a check, each once"),
                              (head + "divisions,0,m\n" * 2, "each once, got 'divisions'"),
                              (head + "divisions,0,m\n", "every check must have a goal")):
            self.path.parent.mkdir(exist_ok=True)
            self.path.write_text(content)
            with self.assertRaisesRegex(Wrong, rule):
                read_goals(self.path)


class TheTables(unittest.TestCase):
    def test_goals(self):
        self.assertEqual(read_goals(HERE / "goals.csv").keys(), CHECKS.keys())

    def test_gates(self):
        # A file of no subject is a table that no test looks at.
        paths = sorted((HERE / "gates").glob("*"))
        self.assertEqual([path.name for path in paths if path.suffix != ".csv" or
                          path.stem not in all_subjects()], [])
        for path in paths:
            read_table(path)


class Distances(unittest.TestCase):
    def test_order(self):
        self.assertEqual(distance("slots per HMMA", 12.0, 4.0), 3)
        self.assertEqual(distance("loads in flight", 1.0, 4.0), 4)
        self.assertEqual(distance("divisions", 7.0, 0.0), 7)


if __name__ == "__main__":
    unittest.main()

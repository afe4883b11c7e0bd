"""The tables: goals.csv has what is asked of every kernel, gates/SUBJECT.csv the lines of kernels
that miss a goal today, with what was measured and why. Lines are a ratchet: a kernel that is worse
than its line fails, and so does one that is better, until the line says so."""
import csv
import io
import math
import re
from dataclasses import dataclass, field, replace

from checks import CHECKS

FIRST = re.compile(r"# measured with ptxas (\d+\.\d+)$")
COLUMNS = ["kernel", "check", "limit", "reason"]
# How much better than its line a kernel may be before the line must follow.
SLACK = 0.05


class Wrong(ValueError):
    """A table breaks a rule."""


@dataclass(frozen=True)
class Line:
    kernel: str
    check: str
    limit: float
    reason: str


@dataclass
class Table:
    release: str = ""  # of the ptxas that it was measured with
    lines: dict = field(default_factory=dict)  # (kernel, check): Line


def read_rows(path, columns, text):
    rows = list(csv.reader(io.StringIO(text), strict=True))
    if not rows or rows[0] != columns:
        raise Wrong(f"{path.name}: columns must be {', '.join(columns)}, found "
                    f"{', '.join(rows[0]) if rows else 'none'}")
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(columns):
            raise Wrong(f"{path.name}: row {number} must have {len(columns)} columns, "
                        f"has {len(row)}")
        yield number, row


def read_limit(path, number, text):
    if not re.fullmatch(r"\d+(\.\d{1,2})?", text):
        raise Wrong(f"{path.name}: the limit of row {number} must be a number with two decimals "
                    f"at most, got {text!r}")
    return float(text)


def read_goals(path):
    goals = {}
    for number, (check, limit, meaning) in read_rows(path, ["check", "limit", "meaning"],
                                                     path.read_text()):
        if check not in CHECKS or check in goals:
            raise Wrong(f"{path.name}: row {number} must name a check, each once, got {check!r}")
        goals[check] = read_limit(path, number, limit)
    if missing := CHECKS.keys() - goals:
        raise Wrong(f"{path.name}: every check must have a goal, {sorted(missing)[0]!r} has none")
    return goals


def read_table(path):
    """A subject's lines; none where it has no file: all its kernels meet all goals."""
    if not path.exists():
        return Table()
    first, _, rest = path.read_text().partition("\n")
    if not (release := FIRST.match(first)):
        raise Wrong(f"{path.name}: the first line must say '# measured with ptxas N.N', "
                    f"found {first!r}")
    table = Table(release[1])
    for number, (kernel, check, limit, reason) in read_rows(path, COLUMNS, rest):
        if check not in CHECKS:
            raise Wrong(f"{path.name}: row {number} must name a check, got {check!r}")
        if not reason.strip():
            raise Wrong(f"{path.name}: row {number} must have a reason, it is empty")
        if (kernel, check) in table.lines:
            raise Wrong(f"{path.name}: row {number} must be the only one of {kernel}, {check}")
        table.lines[kernel, check] = Line(kernel, check, read_limit(path, number, limit), reason)
    if not table.lines:
        raise Wrong(f"{path.name}: a table must have a row; without any there is no file")
    return table


def write_table(path, table):
    if not table.lines:
        path.unlink(missing_ok=True)
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    text.write(f"# measured with ptxas {table.release}\n")
    writer.writerow(COLUMNS)
    for _, line in sorted(table.lines.items()):
        limit = f"{line.limit:.2f}".rstrip("0").rstrip(".")
        writer.writerow([line.kernel, line.check, limit, line.reason])
    path.parent.mkdir(exist_ok=True)
    path.write_text(text.getvalue())


def is_worse(check, value, limit):
    return value > limit if CHECKS[check].at_most else value < limit


def is_much_better(check, value, limit):
    return value < limit * (1 - SLACK) if CHECKS[check].at_most else value > limit * (1 + SLACK)


def judge(found, goals, table):
    """What is wrong, a text each. `found`: (kernel, check): Finding."""
    wrong = []
    for (kernel, check), finding in sorted(found.items()):
        line = table.lines.get((kernel, check))
        said = f"{kernel}: {check}: {finding.value:g} in {finding.where}"
        bound = "at most" if CHECKS[check].at_most else "at least"
        if line and not is_worse(check, finding.value, goals[check]):
            wrong.append(f"{said} meets the goal, {goals[check]:g}: the line must go")
        elif is_worse(check, finding.value, line.limit if line else goals[check]):
            wrong.append(f"{said}, must be {bound} {line.limit if line else goals[check]:g}"
                         + (", its line in the table" if line else ""))
        elif line and is_much_better(check, finding.value, line.limit):
            wrong.append(f"{said} is better than its line, {line.limit:g}: the line must follow")
    for kernel, check in sorted(table.lines.keys() - found.keys()):
        wrong.append(f"{kernel}: {check}: a line of the table for what is not there")
    return wrong


def renew(found, goals, table, release, because):
    """The table that is true, and the kernels and checks that need a reason which nobody gave: new
    lines, and lines that are looser. One that has a reason keeps it; `because` is put behind."""
    lines, without = {}, []
    for key, finding in found.items():
        check, old = key[1], table.lines.get(key)
        if not is_worse(check, finding.value, goals[check]):
            continue
        looser = not old or is_worse(check, finding.value, old.limit)
        if looser and not because:
            without.append((*key, finding, old.limit if old else goals[check]))
        elif not looser:
            lines[key] = replace(old, limit=finding.value)
        else:
            reason = because if not old or because in old.reason else f"{old.reason}; {because}"
            lines[key] = Line(*key, finding.value, reason)
    return Table(release, lines), without


def distance(check, value, goal):
    """How far a kernel is from a goal, to order by; one counts from one where the goal is none."""
    if not CHECKS[check].at_most:
        return goal / value if value else math.inf
    return value / goal if goal else value

"""lint.py: what SASS must look like (docs/sass.md). BUILD is a finished build of the project.

  lint.py check BUILD SUBJECT   fails where a kernel is not what goals.csv and gates/SUBJECT.csv
                                say; 77: there is no ptxas, no nvdisasm, or another ptxas
  lint.py measure BUILD [SUBJECT...] [--because TEXT]
                                writes gates/ from what is; lines that are new or looser need TEXT
  lint.py show BUILD SUBJECT    the loops of its kernels, and every check
  lint.py worst [COUNT]         the lines farthest from the goals, by check
  lint.py subjects              every SUBJECT: policies, criticalkv-pruned, executor

Standard library only."""
import pathlib
import sys

from checks import CHECKS, count, is_move, products, worst
from disassembly import Unreadable
from forms import Missing
from gates import Wrong, distance, judge, read_goals, read_table, renew, write_table
from subjects import EXECUTOR, all_subjects
from toolchain import CHIP, WARPGROUPS_CHIP, Failed, assemble, compile_policy, find_tools

HERE = pathlib.Path(__file__).resolve().parent
GATES = HERE / "gates"
SKIPPED = 77
USAGE = 2


def gate_path(subject):
    return GATES / f"{subject.name}.csv"


def programs_of(subject, build, work):
    """PTX files, their chips, and the shared memory that launches give their kernels."""
    if subject.name != EXECUTOR:
        return compile_policy(build / "bin/kvc-opt", subject, work)
    cuda = build / "executor/cuda"
    return [(cuda / "kernels_bf16.ptx", CHIP, {}), (cuda / "together_bf16.ptx", WARPGROUPS_CHIP, {})]


def kernels_of(subject, tools, build):
    build = pathlib.Path(build).resolve()
    work = build / "test/sass"
    # The executor's engine knows how it launches its kernels; a policy's say it.
    return [kernel for ptx, chip, given in programs_of(subject, build, work)
            for kernel in assemble(tools, ptx, chip, work, subject.name != EXECUTOR, given)]


def findings(kernels):
    return {(kernel.name, check): finding
            for kernel in kernels for check, finding in worst(kernel).items()}


def find_subject(name):
    subjects = all_subjects()
    if name not in subjects:
        raise Failed(f"a subject must be one of {', '.join(subjects)}, got {name!r}")
    return subjects[name]


def need_tools():
    tools, missing = find_tools()
    if not tools:
        raise Failed(f"there must be a {missing}, none was found (docs/sass.md)")
    return tools


def check(build, name):
    subject = find_subject(name)
    goals, table = read_goals(HERE / "goals.csv"), read_table(gate_path(subject))
    tools, missing = find_tools()
    if not tools:
        print(f"skipped: no {missing} (docs/sass.md)")
        return SKIPPED
    release = tools.release
    if table.release and table.release != release:
        print(f"skipped: {gate_path(subject).name} was measured with ptxas {table.release}, "
              f"this one is {release}")
        return SKIPPED
    kernels = kernels_of(subject, tools, build)
    found = findings(kernels)
    wrong = judge(found, goals, table)
    print(f"{len(kernels)} kernels, {len(found)} checks, {len(table.lines)} lines of the table")
    if wrong:
        print(*wrong, sep="\n")
        print(f"what is better: test/sass/lint.py measure BUILD {name}; "
              "what is worse needs --because TEXT as well")
    return 1 if wrong else 0


def measure(build, *arguments):
    arguments, because = list(arguments), ""
    if "--because" in arguments:
        at = arguments.index("--because")
        because = " ".join(arguments[at + 1:at + 2]).strip()
        if not because:
            raise Failed("--because must have a text, it has none")
        del arguments[at:at + 2]
    subjects = ([find_subject(name) for name in arguments] or list(all_subjects().values()))
    tools, goals, refused = need_tools(), read_goals(HERE / "goals.csv"), 0
    for subject in subjects:
        found = findings(kernels_of(subject, tools, build))
        old = read_table(gate_path(subject))
        table, without = renew(found, goals, old, tools.release, because)
        refused += len(without)
        for kernel, name, finding, limit in without:
            print(f"{kernel}: {name}: {finding.value:g} in {finding.where}, was {limit:g}: "
                  "needs a reason")
        if not without:
            write_table(gate_path(subject), table)
        print(f"{subject.name}: {len(table.lines)} lines"
              + (f", {len(without)} without a reason: not written" if without else ""), flush=True)
    return 1 if refused else 0


def show(build, name):
    goals = read_goals(HERE / "goals.csv")
    for kernel in kernels_of(find_subject(name), need_tools(), build):
        print(f"{kernel.name}: {kernel.threads} threads, {kernel.blocks} blocks an SM")
        for loop, own in kernel.loops:
            print(f"  {'  ' * loop.depth}{kernel.flow.where(loop)}: {len(own)} instructions, "
                  f"HMMA {products(own)}, moves {sum(map(is_move, own))}, "
                  f"LDG {count(own, 'LDG')}, STS {count(own, 'STS')}, LDS {count(own, 'LDS')}"
                  + (", innermost" if loop.innermost else ""))
        for check_name, finding in worst(kernel).items():
            print(f"  {check_name}: {finding.value:g} in {finding.where} "
                  f"(goal {goals[check_name]:g})")
    return 0


def show_worst(number="5"):
    if not number.isdigit():
        raise Failed(f"a count must be a number, got {number!r}")
    goals = read_goals(HERE / "goals.csv")
    lines = [line for path in sorted(GATES.glob("*.csv"))
             for line in read_table(path).lines.values()]
    for name in CHECKS:
        of_check = sorted((line for line in lines if line.check == name),
                          key=lambda line: -distance(name, line.limit, goals[name]))
        print(f"{name} (goal {goals[name]:g}): {len(of_check)} lines")
        for line in of_check[:int(number)]:
            print(f"  {line.limit:g} {line.kernel}: {line.reason}")
    return 0


def list_subjects():
    print("\n".join(all_subjects()))
    return 0


# Least and most arguments.
COMMANDS = {"check": (check, 2, 2), "measure": (measure, 1, None), "show": (show, 2, 2),
            "worst": (show_worst, 0, 1), "subjects": (list_subjects, 0, 0)}


def main(arguments):
    command, least, most = COMMANDS.get(arguments[0] if arguments else "", (None, 0, 0))
    given = len(arguments) - 1
    if not command or given < least or (most is not None and given > most):
        print(__doc__, file=sys.stderr)
        return USAGE
    try:
        return command(*arguments[1:])
    except (Failed, Missing, Wrong, Unreadable, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

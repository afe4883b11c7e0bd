"""doubling.py N: a policy of N sums of a value and itself, of counts, of rows in front
of a pool and in front of all heads, of vectors set against segments, and of scores."""
import sys

steps = range(int(sys.argv[1]))
last = len(steps)


def double(name, kind, op="arith.addf"):
    for i in steps:
        print(f"  %{name}{i + 1} = {op} %{name}{i}, %{name}{i} : {kind}")


print("""!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
!counts = tensor<?xi32>
kvc.policy @doubling {
  %n  = arith.constant 8 : index
  %w  = arith.constant 3 : index
  %z  = arith.constant 0 : index
  %r0 = kvc.attention last(%n) : !rows""")
double("r", "!rows")
print(f"""  %pooled = kvc.pool max %r{last} width(%w) : !rows
  %mean = kvc.reduce mean queries %pooled : !rows -> !scores
  %own  = kvc.reduce mean group %mean : !scores -> !scores
  %high = kvc.reduce max heads %r{last} : !rows -> !rows
  %all  = kvc.reduce mean queries %high : !rows -> !scores
  %v0   = kvc.vectors key : !rows""")
double("v", "!rows")
print(f"""  %cut = kvc.segment minmax %v{last} length(%n) from(%z) : !rows
  %std = kvc.reduce std channels %cut : !rows -> !scores
  %a   = arith.addf %own, %std : !scores
  %s0  = arith.addf %a, %all : !scores""")
double("s", "!scores")
print(f"""  %heads = kvc.reduce mean heads %s{last} : !scores -> !scores
  %sum   = arith.addf %heads, %own : !scores
  %i0    = kvc.budget""")
double("i", "index", "arith.addi")
print(f"""  %room = arith.minui %i{last}, %n : index
  %base = kvc.broadcast %room : index to !counts
  %half = kvc.allocate uniform : !counts
  %c0   = arith.addi %half, %base : !counts""")
double("c", "!counts", "arith.addi")
print(f"""  %mask = kvc.topk %sum, %c{last} : !scores, !counts -> tensor<?x?xi1>
  kvc.keep %mask protect_last(%room) : tensor<?x?xi1>
}}""")

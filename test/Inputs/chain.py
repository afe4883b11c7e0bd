"""chain.py N: a policy whose score is a chain of N additions."""
import sys

count = int(sys.argv[1])
print("""!rows   = tensor<?x?x?xf32>
!scores = tensor<?x?xf32>
kvc.policy @chain {
  %window = kvc.param "window" = 8 : index
  %rows   = kvc.attention last(%window) : !rows
  %mean   = kvc.reduce mean queries %rows : !rows -> !scores
  %s0     = kvc.reduce mean group %mean : !scores -> !scores""")
for i in range(count):
    print(f"  %s{i + 1} = arith.addf %s{i}, %s{i} : !scores")
print(f"""  %count = kvc.allocate uniform : tensor<?xi32>
  %kept  = kvc.topk %s{count}, %count : !scores, tensor<?xi32> -> tensor<?x?xi1>
  kvc.keep %kept protect_last(%window) : tensor<?x?xi1>
}}""")

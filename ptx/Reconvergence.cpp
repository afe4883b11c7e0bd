//===- Reconvergence.cpp --------------------------------------------------===//
//
// Post-dominators by the iterative algorithm of Cooper, Harvey and Kennedy (A
// Simple, Fast Dominance Algorithm, 2001) on the reversed graph, an instruction a
// node: kernels have some thousand.
//
//===----------------------------------------------------------------------===//

#include "ptx/Reconvergence.h"

using namespace kvc::ptx;

void kvc::ptx::findJoins(Kernel &kernel) {
  const uint32_t end = uint32_t(kernel.code.size()), none = ~0u;
  std::vector<std::array<uint32_t, 2>> after(end, {none, none});
  std::vector<std::vector<uint32_t>> before(end + 1);
  for (uint32_t i = 0; i < end; ++i) {
    const Instruction &op = kernel.code[i];
    if (op.flow == Flow::Branch)
      after[i][0] = op.target;
    else if (op.flow == Flow::Return)
      after[i][0] = end;
    if (after[i][0] == none || op.guarded)
      after[i][1] = i + 1;
    for (uint32_t next : after[i])
      if (next != none)
        before[next].push_back(i);
  }
  // Numbers in post order of a walk back from the end.
  std::vector<uint32_t> order, number(end + 1, none);
  std::vector<std::pair<uint32_t, size_t>> walk{{end, 0}};
  std::vector<bool> seen(end + 1);
  seen[end] = true;
  while (!walk.empty()) {
    auto &[node, edge] = walk.back();
    if (edge == before[node].size()) {
      number[node] = uint32_t(order.size());
      order.push_back(node);
      walk.pop_back();
    } else if (uint32_t next = before[node][edge++]; !seen[next]) {
      seen[next] = true;
      walk.push_back({next, 0});
    }
  }
  std::vector<uint32_t> join(end + 1, none);
  join[end] = end;
  auto meet = [&](uint32_t a, uint32_t b) {
    while (a != b)
      if (number[a] < number[b])
        a = join[a];
      else
        b = join[b];
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = order.size() - 1; i--;) {
      uint32_t node = order[i], found = none;
      for (uint32_t next : after[node])
        if (next != none && join[next] != none)
          found = found == none ? next : meet(next, found);
      changed |= join[node] != found;
      join[node] = found;
    }
  }
  for (uint32_t i = 0; i < end; ++i)
    if (kernel.code[i].flow == Flow::Branch && kernel.code[i].guarded)
      kernel.code[i].join = join[i] == none ? end : join[i];
}

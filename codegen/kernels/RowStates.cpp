//===- RowStates.cpp - numbers that rows carry from run to run ------------===//

#include "codegen/kernels/RowStates.h"

using namespace mlir;
using namespace kvc;

void kvc::addRowStateArgs(std::vector<std::string> &args, const Shape &shape) {
  for (const char *arg :
       {"row_states", "row_states_kind", "row_states_state", "row_states_batch",
        "row_states_head", "row_states_row"})
    addArg(args, arg);
  if (shape.isPaged())
    addArg(args, "row_states_page");
}

Expr kvc::readRowState(KernelBuilder &k, const SequenceScalars &s,
                       RowStateOp op, Expr head, Expr row) {
  ArrayRef<StringAttr> names =
      op->getParentOfType<PolicyOp>().getPlanAttr().getStates();
  int64_t state = llvm::find(names, op.getNameAttr()) - names.begin();
  Buffer numbers = k.buffer("row_states", {});
  return HeadRows(k, s.sequence, head, s.length)
      .given("row_states", row, k.f32(0), [&](Expr place) {
        return k.load(numbers, {place + k.arg("row_states_state") * state});
      });
}

Expr kvc::hasWork(KernelBuilder &k, const SequenceScalars &s, KernelOp kernel) {
  Expr ranks = s.length.above(s.budget);
  return kernel.getEveryRow() ? ranks | (k.arg("carries") > 0) : ranks;
}

void kvc::takeEveryRow(KernelBuilder &k, SequenceScalars &s, KernelOp kernel) {
  if (kernel.getEveryRow())
    s.past = (k.arg("carries") > 0).select(s.rows, s.past);
}

void CarriedRows::addArgs(std::vector<std::string> &args) {
  for (const char *arg :
       {"carries", "row_states_out", "row_states_out_state", "out_rows"})
    addArg(args, arg);
}

Expr CarriedRows::wanted() const { return k.arg("carries") > 0; }

void CarriedRows::store(int64_t state, Expr place, Expr number) {
  Buffer numbers = k.buffer("row_states_out",
                            {k.arg("row_states_out_state"), k.arg("out_rows")});
  k.store(number, numbers, {k.index(state), sequence, place});
}

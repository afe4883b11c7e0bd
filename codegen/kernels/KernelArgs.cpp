//===- KernelArgs.cpp - the table -----------------------------------------===//

#include "codegen/kernels/KernelArgs.h"

using namespace kvc;

static const ArgSpec table[] = {
    {"lengths", ArgKind::Integers, true, "[batch] T of each sequence"},
    {"budgets", ArgKind::Integers, true, "[batch] B of each sequence"},
    {"kv_heads", ArgKind::Index, true, "Hkv"},
    {"max_tokens", ArgKind::Index, true,
     "row length of token buffers in scratch"},
    {"layer", ArgKind::Index, true, "index of the layer, from 0"},
    {"layers", ArgKind::Index, true, "number of layers"},
    {"table", ArgKind::Floats, true, "[layers, Hq] importance of query heads"},
    {"state", ArgKind::Integers, false,
     "[batch, state_rows] layers that kept a token, and the last, times 2^16"},
    {"state_rows", ArgKind::Index, true, "tokens per sequence in state"},
    {"q", ArgKind::Elements, true,
     "queries after RoPE, the last q_rows of each sequence"},
    {"q_rows", ArgKind::Index, true, "queries per head in q"},
    {"q_batch", ArgKind::Index, true, "stride in elements"},
    {"q_head", ArgKind::Index, true, "stride in elements"},
    {"q_row", ArgKind::Index, true, "stride in elements"},
    {"k", ArgKind::Elements, true, "keys after RoPE"},
    {"k_batch", ArgKind::Index, true, "stride in elements"},
    {"k_head", ArgKind::Index, true, "stride in elements"},
    {"k_token", ArgKind::Index, true, "stride in elements"},
    {"v", ArgKind::Elements, true, "values"},
    {"v_batch", ArgKind::Index, true, "stride in elements"},
    {"v_head", ArgKind::Index, true, "stride in elements"},
    {"v_token", ArgKind::Index, true, "stride in elements"},
    {"k_raw", ArgKind::Elements, true, "keys before RoPE"},
    {"k_raw_batch", ArgKind::Index, true, "stride in elements"},
    {"k_raw_head", ArgKind::Index, true, "stride in elements"},
    {"k_raw_token", ArgKind::Index, true, "stride in elements"},
    {"wo", ArgKind::Elements, true, "output projection, a row per output"},
    {"wo_batch", ArgKind::Index, true, "stride in elements"},
    {"wo_head", ArgKind::Index, true, "stride in elements"},
    {"wo_row", ArgKind::Index, true, "stride in elements"},
    {"hidden", ArgKind::Index, true, "D, the outputs of the projection"},
    {"lse", ArgKind::Floats, true, "log-sum-exp of the last lse_rows queries"},
    {"lse_rows", ArgKind::Index, true, "rows per head in lse"},
    {"lse_batch", ArgKind::Index, true, "stride in elements"},
    {"lse_head", ArgKind::Index, true, "stride in elements"},
    {"lse_scale", ArgKind::Float, true,
     "log2(e) if lse is natural, 1 if base 2"},
    {"logit_scale", ArgKind::Float, true, "softmax scale times log2(e)"},
    {"indices", ArgKind::Integers, false,
     "[batch, Hkv, index_capacity] kept tokens"},
    {"counts", ArgKind::Integers, false, "[batch, Hkv] kept tokens per head"},
    {"past", ArgKind::Integers, false,
     "[batch] tokens that were ranked, 0 if none"},
    {"index_capacity", ArgKind::Index, true, "rows per head in indices"},
    {"status", ArgKind::Integers, false,
     "[1] bits: 1 NaN score, 2 capacity exceeded, 4 bad table"},
    {"member_rows", ArgKind::Integers, false,
     "[batch, Hkv, member_capacity] row that represents each member"},
    {"member_positions", ArgKind::Integers, false,
     "[batch, Hkv, member_capacity] position of each member"},
    {"member_norms", ArgKind::Floats, false,
     "[batch, Hkv, member_capacity] norm of each member's key"},
    {"member_counts", ArgKind::Integers, false,
     "[batch, Hkv] members per head"},
    {"member_capacity", ArgKind::Index, true, "members per head in the table"},
    {"k_out", ArgKind::Elements, false, "[batch, out_rows, d] ragged cache"},
    {"v_out", ArgKind::Elements, false, "[batch, out_rows, d] ragged cache"},
    {"offsets", ArgKind::Integers, false,
     "[batch, Hkv] first row of each head"},
    {"out_rows", ArgKind::Index, true, "rows per sequence in k_out, v_out"},
    {"slack", ArgKind::Index, true, "free rows behind each head"},
};

const ArgSpec *kvc::findArg(llvm::StringRef name) {
  for (const ArgSpec &spec : table)
    if (spec.name == name)
      return &spec;
  return nullptr;
}

llvm::ArrayRef<ArgSpec> kvc::allArgs() { return table; }

//===- Coverage.cpp - what policies have made the compiler do -------------===//

#include "test/random/Coverage.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include "runtime/base/Format.h"

#include <algorithm>
#include <ostream>

using namespace mlir;
using namespace kvc;
using namespace kvc::random;

/// The op with what chooses its code: "reduce max queries", "cmpf ogt".
static std::string nameOf(Operation *op) {
  std::string name = op->getName().stripDialect().str();
  auto add = [&](llvm::StringRef word) { name += " " + word.str(); };
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    add(stringifyReduceKind(reduce.getKind()));
    add(stringifyReduceAxis(reduce.getAxis()));
  } else if (auto pool = dyn_cast<PoolOp>(op)) {
    add(stringifyPoolKind(pool.getKind()));
    if (pool.getCountPadding())
      add("count_padding");
  } else if (auto segment = dyn_cast<SegmentOp>(op)) {
    add(stringifySegmentKind(segment.getKind()));
    if (segment.getNext())
      add("next");
  } else if (auto norm = dyn_cast<NormOp>(op)) {
    add(stringifyNormKind(norm.getKind()));
    add(stringifyCacheSide(norm.getSide()));
  } else if (auto norm = dyn_cast<ProjectedNormOp>(op)) {
    add(stringifyNormKind(norm.getKind()));
    if (norm.getBound())
      add("bound");
    if (norm.getWhere())
      add("where");
  } else if (auto vectors = dyn_cast<VectorsOp>(op)) {
    add(stringifyCacheSide(vectors.getSide()));
  } else if (auto attention = dyn_cast<AttentionOp>(op)) {
    add(attention.readsAll() ? "all" : attention.readsNew() ? "new" : "last");
    if (attention.getLogits())
      add("logits");
    if (attention.getRounded())
      add("rounded");
  } else if (auto position = dyn_cast<PositionOp>(op)) {
    if (position.getRow())
      add("row");
    if (position.getFromEnd())
      add("from_end");
  } else if (auto count = dyn_cast<CountRowsOp>(op)) {
    if (count.getAll())
      add("all");
  } else if (auto kept = dyn_cast<KeptLayersOp>(op)) {
    if (kept.getShare())
      add("share");
  } else if (auto nearest = dyn_cast<NearestOp>(op)) {
    add(stringifyCacheSide(nearest.getSide()));
    if (nearest.getTimes())
      add("times " + stringifyCacheSide(*nearest.getTimes()).str());
  } else if (auto select = dyn_cast<SelectHeadsOp>(op)) {
    add(stringifyEnd(select.getEnd()));
  } else if (auto scale = dyn_cast<ScaleCountOp>(op)) {
    add(scale.getOver() ? "over" : "by");
  } else if (auto list = dyn_cast<ListMembersOp>(op)) {
    if (list.getSharePositions())
      add("share_positions");
  } else if (auto cmp = dyn_cast<arith::CmpFOp>(op)) {
    add(arith::stringifyCmpFPredicate(cmp.getPredicate()));
  } else if (auto cmp = dyn_cast<arith::CmpIOp>(op)) {
    add(arith::stringifyCmpIPredicate(cmp.getPredicate()));
  }
  return name;
}

static std::string axesText(mlir::Type type) {
  if (!isa<RankedTensorType>(type))
    return "scalar";
  std::string text;
  for (Axis axis : axesOf(type))
    text += (text.empty() ? "" : " x ") + stringifyAxis(axis).str();
  auto tensor = cast<RankedTensorType>(type);
  if (llvm::is_contained(axesOf(type), Axis::Query) && tensor.isDynamicDim(1))
    text += " (all)";
  return text;
}

Cells kvc::random::cellsOf(PolicyOp fused) {
  Cells cells;
  for (auto kernel : fused.getOps<KernelOp>()) {
    std::set<std::string> names;
    for (Operation &op : kernel.getBody().front().without_terminator()) {
      if (isa<arith::ConstantOp>(op))
        continue;
      std::string name = nameOf(&op);
      // What a reduction, a pool or a segment reads chooses its code.
      mlir::Type type = op.getNumOperands() ? op.getOperand(0).getType()
                                            : op.getResult(0).getType();
      if (!isa<ReduceOp, PoolOp, SegmentOp>(op) && op.getNumResults())
        type = op.getResult(0).getType();
      cells.ops.insert(
          rt::formatted("{} | {} | {}", name, axesText(type),
                        stringifyKernelKind(kernel.getKind()).str()));
      names.insert(name);
    }
    for (const std::string &a : names)
      for (const std::string &b : names)
        if (a < b)
          cells.pairs.insert(
              rt::formatted("{} + {} | {}", a, b,
                            stringifyKernelKind(kernel.getKind()).str()));
  }
  return cells;
}

void Cells::runOnRows() {
  for (const std::string &cell : ops)
    ofRows.insert(cell.substr(0, cell.find(" | ")));
}

void Coverage::add(const Cells &cells) {
  for (const std::string &name : cells.ofRows)
    ++ofRows[name];
  caches += !cells.ofRows.empty();
  for (const std::string &cell : cells.ops)
    ++ops[cell];
  for (const std::string &cell : cells.pairs)
    ++pairs[cell];
}

/// All that the dialect has and kernels compute, by name.
std::vector<std::string> kvc::random::reductions(const std::string &axis) {
  std::vector<std::string> kinds;
  for (unsigned i = 0; i <= getMaxEnumValForReduceKind(); ++i)
    if (auto kind = symbolizeReduceKind(i);
        kind && (folds(*kind) || axis == "tokens" || axis == "channels"))
      kinds.push_back(stringifyReduceKind(*kind).str());
  return kinds;
}

std::vector<std::string> kvc::random::segmentKinds(bool ofVectors) {
  std::vector<std::string> kinds;
  for (unsigned i = 0; i <= getMaxEnumValForSegmentKind(); ++i)
    if (auto kind = symbolizeSegmentKind(i);
        kind && !(ofVectors &&
                  (kind == SegmentKind::Softmax || kind == SegmentKind::Rank)))
      kinds.push_back(stringifySegmentKind(*kind).str());
  return kinds;
}

static std::vector<std::string> expected() {
  std::vector<std::string> names;
  for (const char *axis : {"queries", "group", "heads", "tokens", "channels"})
    for (const std::string &kind : reductions(axis))
      names.push_back(rt::formatted("reduce {} {}", kind, axis));
  for (const std::string &kind : segmentKinds(/*ofVectors=*/false))
    for (const char *next : {"", " next"})
      names.push_back(rt::formatted("segment {}{}", kind, next));
  for (const char *side : {"key", "value", "raw_key"}) {
    names.push_back(rt::formatted("norm l1 {}", side));
    names.push_back(rt::formatted("norm l2 {}", side));
    names.push_back(rt::formatted("vectors {}", side));
    names.push_back(rt::formatted("nearest {}", side));
    for (const char *times : {"key", "value", "raw_key"})
      names.push_back(rt::formatted("nearest {} times {}", side, times));
  }
  for (const char *name : {"pool max",
                           "pool mean",
                           "pool mean count_padding",
                           "projected_norm l1",
                           "projected_norm l2",
                           "projected_norm l1 where",
                           "projected_norm l1 bound",
                           "attention last",
                           "attention all",
                           "attention new",
                           "attention last logits",
                           "attention all logits",
                           "attention last rounded",
                           "attention all rounded",
                           "position",
                           "position from_end",
                           "position row",
                           "position row from_end",
                           "kept_layers",
                           "kept_layers share",
                           "row_state",
                           "new_queries",
                           "broadcast",
                           "select_heads lowest",
                           "select_heads highest",
                           "scale_count by",
                           "scale_count over",
                           "allocate",
                           "allocate_layers",
                           "allocate_heads",
                           "allocate_table",
                           "count_mass",
                           "count_rows",
                           "count_rows all",
                           "topk",
                           "budget",
                           "length",
                           "layer",
                           "layers",
                           "list_members",
                           "list_members share_positions"})
    names.push_back(name);
  for (unsigned i = 0; i <= arith::getMaxEnumValForCmpFPredicate(); ++i)
    if (auto p = arith::symbolizeCmpFPredicate(i);
        p && *p != arith::CmpFPredicate::AlwaysFalse &&
        *p != arith::CmpFPredicate::AlwaysTrue)
      names.push_back("cmpf " + arith::stringifyCmpFPredicate(*p).str());
  for (unsigned i = 0; i <= arith::getMaxEnumValForCmpIPredicate(); ++i)
    if (auto p = arith::symbolizeCmpIPredicate(i))
      names.push_back("cmpi " + arith::stringifyCmpIPredicate(*p).str());
  for (const char *name :
       {"addf",      "subf",      "mulf",       "divf",        "negf",
        "maximumf",  "minimumf",  "maxnumf",    "minnumf",     "absf",
        "exp",       "exp2",      "expm1",      "log",         "log2",
        "log1p",     "sqrt",      "rsqrt",      "tanh",        "floor",
        "ceil",      "roundeven", "powf",       "copysign",    "fma",
        "select",    "addi",      "subi",       "muli",        "divui",
        "ceildivui", "remui",     "maxsi",      "minsi",       "maxui",
        "minui",     "andi",      "ori",        "xori",        "absi",
        "extui",     "extsi",     "trunci",     "sitofp",      "uitofp",
        "fptosi",    "fptoui",    "index_cast", "index_castui"})
    names.push_back(name);
  return names;
}

std::vector<std::string> Coverage::holes() const {
  std::vector<std::string> missing;
  for (const std::string &name : expected())
    if (std::none_of(ops.begin(), ops.end(), [&](const auto &cell) {
          return cell.first.compare(0, name.size() + 3, name + " | ") == 0;
        }))
      missing.push_back(name);
  return missing;
}

void Coverage::print(std::ostream &stream) const {
  stream << "policies | op | axes | kernel\n";
  for (const auto &[cell, count] : ops)
    stream << rt::formatted("{:6} | {}\n", count, cell);
  stream << rt::formatted(
      "{} pairs of ops in one kernel; the ten most seldom:\n", pairs.size());
  std::vector<std::pair<int64_t, std::string>> seldom;
  for (const auto &[cell, count] : pairs)
    seldom.emplace_back(count, cell);
  std::sort(seldom.begin(), seldom.end());
  for (size_t i = 0; i < std::min<size_t>(10, seldom.size()); ++i)
    stream << rt::formatted("{:6} | {}\n", seldom[i].first, seldom[i].second);
  std::vector<std::string> missing = holes();
  stream << missing.size() << " holes\n";
  for (const std::string &name : missing)
    stream << "  never: " << name << "\n";
  stream << rt::formatted("{} policies on caches of rows, {} names of ops\n",
                          caches, ofRows.size());
  for (const std::string &name : expected())
    if (caches && !ofRows.contains(name))
      stream << "  never on rows: " << name << "\n";
}

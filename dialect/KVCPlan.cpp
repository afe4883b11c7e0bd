//===- KVCPlan.cpp - #kvc.plan as text ------------------------------------===//

#include "dialect/KVCDialect.h"

using namespace mlir;
using namespace kvc;

bool PlanAttr::readsAllQueries() const {
  return ShapedType::isDynamic(getQueries());
}

/// An integer, or nothing where `word` stands in its place.
template <typename T>
static ParseResult parseOr(AsmParser &parser, StringRef word,
                           std::optional<T> &value) {
  if (succeeded(parser.parseOptionalKeyword(word)))
    return success();
  T number;
  if (parser.parseInteger(number))
    return failure();
  value = number;
  return success();
}

/// ", name =", without the comma in front of the first field.
static ParseResult parseField(AsmParser &parser, StringRef name) {
  if (name != "queries" && parser.parseComma())
    return failure();
  return failure(parser.parseKeyword(name) || parser.parseEqual());
}

template <typename Enum>
static ParseResult parseWord(AsmParser &parser,
                             std::optional<Enum> (*known)(StringRef),
                             Enum &value) {
  StringRef word;
  SMLoc at = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<Enum> found = known(word);
  if (!found)
    return parser.emitError(at, "unknown word '") << word << "'";
  value = *found;
  return success();
}

static ParseResult parseBuffer(AsmParser &parser, PlannedBuffer &buffer) {
  if (parser.parseInteger(buffer.first) || parser.parseKeyword("to") ||
      parser.parseInteger(buffer.last))
    return failure();
  buffer.perBlock = succeeded(parser.parseOptionalKeyword("per_block"));
  buffer.inModelType = succeeded(parser.parseOptionalKeyword("model"));
  return parser.parseColonType(buffer.type);
}

Attribute PlanAttr::parse(AsmParser &parser, Type) {
  std::optional<int64_t> queries, protectLast, leastQueries;
  SmallVector<StringAttr> states;
  SmallVector<unsigned> skipped;
  std::optional<unsigned> lse, scores;
  Axis heads = Axis::KVHeads;
  SmallVector<Phase> phases;
  SmallVector<PlannedBuffer> buffers;
  if (parser.parseLess() || parseField(parser, "queries") ||
      parseOr(parser, "all", queries) || parseField(parser, "protect_last") ||
      parseOr(parser, "unknown", protectLast) || parseField(parser, "lse") ||
      parseOr(parser, "none", lse) || parseField(parser, "scores") ||
      parseOr(parser, "none", scores))
    return {};
  if (scores &&
      (parser.parseKeyword("of") || parseWord(parser, symbolizeAxis, heads)))
    return {};
  using Delimiter = AsmParser::Delimiter;
  // Three fields may be absent; behind each comes another.
  if (parser.parseComma())
    return {};
  if (succeeded(parser.parseOptionalKeyword("least_queries"))) {
    int64_t least;
    if (parser.parseEqual() || parser.parseInteger(least) ||
        parser.parseComma())
      return {};
    leastQueries = least;
  }
  auto state = [&] { return parser.parseAttribute(states.emplace_back()); };
  if (succeeded(parser.parseOptionalKeyword("states")))
    if (parser.parseEqual() ||
        parser.parseCommaSeparatedList(Delimiter::Square, state) ||
        parser.parseComma())
      return {};
  auto kernel = [&] { return parser.parseInteger(skipped.emplace_back()); };
  if (succeeded(parser.parseOptionalKeyword("skipped_with_lse")))
    if (parser.parseEqual() ||
        parser.parseCommaSeparatedList(Delimiter::Square, kernel) ||
        parser.parseComma())
      return {};
  auto phase = [&] {
    return parseWord(parser, symbolizePhase, phases.emplace_back());
  };
  auto buffer = [&] { return parseBuffer(parser, buffers.emplace_back()); };
  if (parser.parseKeyword("phases") || parser.parseEqual() ||
      parser.parseCommaSeparatedList(Delimiter::Square, phase) ||
      parseField(parser, "buffers") ||
      parser.parseCommaSeparatedList(Delimiter::Square, buffer) ||
      parser.parseGreater())
    return {};
  return PlanAttr::get(parser.getContext(),
                       queries.value_or(ShapedType::kDynamic), protectLast, lse,
                       scores, heads, leastQueries, states, skipped, phases,
                       buffers);
}

void PlanAttr::print(AsmPrinter &printer) const {
  auto number = [&](auto value, StringRef otherwise) {
    if (value)
      printer << *value;
    else
      printer << otherwise;
  };
  printer << "<queries = ";
  if (readsAllQueries())
    printer << "all";
  else
    printer << getQueries();
  printer << ", protect_last = ";
  number(getProtectLast(), "unknown");
  printer << ", lse = ";
  number(getLse(), "none");
  printer << ", scores = ";
  number(getScores(), "none");
  if (getScores())
    printer << " of " << stringifyAxis(getScoreHeads());
  if (getLeastQueries())
    printer << ", least_queries = " << *getLeastQueries();
  if (!getStates().empty()) {
    printer << ", states = [";
    llvm::interleaveComma(getStates(), printer);
    printer << ']';
  }
  if (!getSkippedWithLse().empty()) {
    printer << ", skipped_with_lse = [";
    llvm::interleaveComma(getSkippedWithLse(), printer);
    printer << ']';
  }
  printer << ", phases = [";
  llvm::interleaveComma(getPhases(), printer,
                        [&](Phase phase) { printer << stringifyPhase(phase); });
  printer << "], buffers = [";
  llvm::interleaveComma(getBuffers(), printer, [&](const PlannedBuffer &b) {
    printer << b.first << " to " << b.last << (b.perBlock ? " per_block" : "")
            << (b.inModelType ? " model" : "") << " : " << b.type;
  });
  printer << "]>";
}

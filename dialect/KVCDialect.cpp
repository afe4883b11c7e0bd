//===- KVCDialect.cpp - registration --------------------------------------===//

#include "dialect/KVCDialect.h"

#include "dialect/Behind.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <numeric>

using namespace mlir;
using namespace kvc;

// carry("mass" = %sum : tensor<?x?xf32>, ...): what rows carry, by name; nothing
// for nothing.
static ParseResult
parseCarried(OpAsmParser &parser, ArrayAttr &names,
             SmallVectorImpl<OpAsmParser::UnresolvedOperand> &values,
             SmallVectorImpl<Type> &types) {
  if (failed(parser.parseOptionalKeyword("carry")))
    return success();
  SmallVector<Attribute> parsed;
  auto one = [&]() -> ParseResult {
    StringAttr name;
    if (parser.parseAttribute(name) || parser.parseEqual() ||
        parser.parseOperand(values.emplace_back()) ||
        parser.parseColonType(types.emplace_back()))
      return failure();
    parsed.push_back(name);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, one))
    return failure();
  if (!parsed.empty())
    names = parser.getBuilder().getArrayAttr(parsed);
  return success();
}

static void printCarried(OpAsmPrinter &printer, Operation *, ArrayAttr names,
                         OperandRange values, TypeRange types) {
  if (values.empty())
    return;
  printer << "carry(";
  llvm::interleaveComma(llvm::zip(kvc::carriedNames(names), values, types),
                        printer, [&](auto one) {
                          auto [name, value, type] = one;
                          printer << name << " = " << value << " : " << type;
                        });
  printer << ')';
}

#include "dialect/KVCDialect.cpp.inc"
#include "dialect/KVCEnums.cpp.inc"
#include "dialect/KVCInterfaces.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/KVCTypes.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/KVCAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialect/KVCOps.cpp.inc"

void kvc::KVCDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/KVCTypes.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/KVCAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/KVCOps.cpp.inc"
      >();
}

SmallVector<StringAttr> kvc::carriedNames(ArrayAttr names) {
  if (!names)
    return {};
  return llvm::to_vector(names.getAsRange<StringAttr>());
}

int64_t kvc::constantOf(Value value) {
  llvm::APInt constant;
  if (value && matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  return 0;
}

/// `known`: what has been found for the result of a pool.
static Pooled pooledBehind(Value value, llvm::DenseMap<Value, Pooled> &known) {
  Pooled result{.reach = 0, .values = 0};
  walkBehind(value, [&](Value behind) {
    auto type = dyn_cast<RankedTensorType>(behind.getType());
    if (!type || type.getRank() != 3)
      return false;
    auto pool = behind.getDefiningOp<PoolOp>();
    if (!pool)
      return true;
    auto found = known.find(behind);
    if (found == known.end()) {
      Pooled one = pooledBehind(pool.getValue(), known);
      int64_t width = constantOf(pool.getWidth());
      one.reach += width / 2;
      one.values = std::min<int64_t>(one.values * width, INT32_MAX);
      found = known.insert({behind, one}).first;
    }
    result.reach = std::max(result.reach, found->second.reach);
    result.values =
        std::min<int64_t>(result.values + found->second.values, INT32_MAX);
    return false;
  });
  result.values = std::max<int64_t>(result.values, 1); // its own
  return result;
}

Pooled kvc::pooledBehind(Value value) {
  llvm::DenseMap<Value, Pooled> known;
  return ::pooledBehind(value, known);
}

std::optional<std::pair<int64_t, int64_t>>
kvc::parseFraction(llvm::StringRef text) {
  auto [whole, places] = text.split('.');
  int64_t numerator, denominator = 1;
  if (places.size() > 4 || (whole.empty() && places.empty()) ||
      (whole + places).str().find_first_not_of("0123456789") !=
          std::string::npos ||
      llvm::StringRef((whole + places).str()).getAsInteger(10, numerator))
    return std::nullopt;
  for (size_t i = 0; i < places.size(); ++i)
    denominator *= 10;
  if (numerator / denominator >= 1024)
    return std::nullopt;
  int64_t common = std::gcd(numerator, denominator);
  return std::make_pair(numerator / common, denominator / common);
}

LogicalResult FillOp::canonicalize(FillOp op, PatternRewriter &rewriter) {
  Value number =
      arith::ConstantOp::create(rewriter, op.getLoc(), op.getValueAttr());
  rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(), number);
  return success();
}

std::pair<int64_t, int64_t> ScaleCountOp::getFactor() {
  auto [numerator, denominator] =
      getShare().getDefiningOp<FractionOp>().getRatio();
  return getOver() ? std::make_pair(denominator, numerator)
                   : std::make_pair(numerator, denominator);
}

bool AttentionOp::readsAll() {
  return getLast().getDefiningOp<LengthOp>() != nullptr;
}

bool AttentionOp::readsNew() {
  return getLast().getDefiningOp<NewQueriesOp>() != nullptr;
}

Block::BlockArgListType KernelOp::getGramArgs() {
  return getBody().getArguments().slice(getIns().size(), getGram().size());
}

BlockArgument KernelOp::getLseArg() {
  return getLse() ? getBody().getArgument(getIns().size() + getGram().size())
                  : BlockArgument();
}

Value KernelOp::getOperandOf(BlockArgument arg) {
  return (*this)->getOperand(arg.getArgNumber());
}

Value KernelOp::getResultOf(Value yielded) {
  auto yield = cast<YieldOp>(getBody().front().back());
  for (auto [value, result] : llvm::zip(yield.getValues(), getOutputs()))
    if (value == yielded)
      return result;
  return {};
}

bool KernelOp::listsForHeads() {
  OperandRange made = cast<YieldOp>(getBody().front().back()).getValues();
  return !made.empty() && llvm::all_of(made, [](Value value) {
    auto list = value.getDefiningOp<ListCandidatesOp>();
    return list && !list.getAllHeads();
  });
}

std::pair<int64_t, int64_t> FractionOp::getRatio() {
  return *parseFraction(getText());
}

//===----------------------------------------------------------------------===//
// kvc.param: the default's type is the result's; a decimal text is a fraction
//===----------------------------------------------------------------------===//

ParseResult ParamOp::parse(OpAsmParser &parser, OperationState &state) {
  StringAttr name;
  TypedAttr value;
  if (parser.parseAttribute(name, "name", state.attributes) ||
      parser.parseEqual())
    return failure();
  std::string text;
  Type type;
  if (succeeded(parser.parseOptionalString(&text))) {
    if (parser.parseColonType(type))
      return failure();
    value = StringAttr::get(text, type);
  } else {
    if (parser.parseAttribute(value))
      return failure();
    type = value.getType();
  }
  state.addAttribute("value", value);
  state.addTypes(type);
  return parser.parseOptionalAttrDict(state.attributes);
}

void ParamOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getNameAttr() << " = ";
  if (auto text = dyn_cast<StringAttr>(getValue()))
    printer << '"' << text.getValue() << "\" : " << getType();
  else
    printer << getValue();
  printer.printOptionalAttrDict((*this)->getAttrs(), {"name", "value"});
}

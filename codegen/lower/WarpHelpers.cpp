//===- WarpHelpers.cpp - functions that are called, not written out --------===//
//
// One access of 32 lanes to places of their own is a hundred instructions; as calls
// kernels stay short, and compile in the time they did. Offsets are elements, in a table
// of 32 words of memory; `bits` says which lanes are active, and no other touches memory.
//
//===----------------------------------------------------------------------===//

#include "codegen/lower/WarpHelperElements.h"
#include "codegen/lower/WarpHelperMath.h"
#include "codegen/lower/WarpHelperWords.h"
#include "codegen/lower/WarpKernel.h"

#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace kvc;

static void replaceAll(std::string &text, StringRef from, StringRef to) {
  for (size_t at = 0; (at = text.find(from.str(), at)) != std::string::npos;
       at += to.size())
    text.replace(at, from.size(), to.str());
}

static std::string repeated(StringRef text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    std::string one = text.str();
    replaceAll(one, "@I", std::to_string(i));
    replaceAll(one, "@B", std::to_string(128 * i));
    replaceAll(one, "@C", std::to_string(4 * i));
    all += one;
  }
  return all;
}

/// Names are the kind and what it is of: gather_i32, atomic_add_i32, plain_or_i32,
/// read_4_16 (four words, offsets of 16 bits), copy_4_32, map.
static std::string sourceOf(StringRef name) {
  SmallVector<StringRef> parts;
  name.split(parts, '_');
  StringRef kind = parts[1], last = parts.back();
  std::string source, body;
  if (kind == "gather") {
    source = text::gather;
    body = text::gatherBody;
    replaceAll(source, "@INAROW", text::inARow);
    bool masks = last == "i32" || last == "i64";
    replaceAll(source, "@ROW", masks ? text::maskedRow : text::wholeRow);
    replaceAll(source, "@ENOUGH", masks ? "0" : "-1");
    replaceAll(source, "@LANES", repeated(text::gatherLane, 32));
    std::string numbers = repeated("%x@I, ", 32);
    replaceAll(source, "@NUMBERS", StringRef(numbers).drop_back(2));
  } else if (kind == "scatter") {
    source = text::scatter;
    body = text::scatterBody;
    replaceAll(source, "@LANES", repeated(text::scatterLane, 32));
  } else if (kind == "atomic" || kind == "plain") {
    source = text::atomic;
    body = kind == "plain" ? text::plainBody : text::atomicBody;
    replaceAll(body, "@OP",
               kind == "atomic" && parts[2] == "or" ? "_or" : parts[2]);
  } else if (kind == "read" || kind == "write") {
    source = text::readWords;
    body = kind == "read" ? text::readWordsBody : text::writeWordsBody;
    int count = 0;
    parts[2].getAsInteger(10, count);
    replaceAll(
        body, "@WORDS",
        repeated(kind == "read" ? text::readWord : text::writeWord, count));
    if (count == 4)
      replaceAll(source, "@EACHLANE", text::someLanes);
  } else if (kind == "turn") {
    source = text::readFour;
  } else if (kind == "copy") {
    source = text::copyWords;
    body = text::copyBody;
  } else if (kind == "exp2") {
    source = text::exp2Lanes;
  } else {
    source = text::map;
  }
  bool writes = kind == "write";
  replaceAll(source, "@FOURLANES", text::fourLanes);
  replaceAll(source, "@FROM",
             repeated(writes ? text::writeFourRead : text::readFourRead, 4));
  replaceAll(source, "@TO",
             repeated(writes ? text::writeFourWrite : text::readFourWrite, 4));
  replaceAll(body, "@OWN", text::ownNumber);
  std::string loop = text::eachLane;
  replaceAll(loop, "@BODY", body);
  replaceAll(source, "@EACHLANE", loop);
  replaceAll(source, "@ALLACTIVE", text::allActive);
  replaceAll(source, "@NAME", "@" + name.str());
  replaceAll(source, "@T", last);
  replaceAll(source, "@E", last);
  if (parts.size() > 2)
    replaceAll(source, "@N", parts[2]);
  int bits = 8;
  last.drop_while([](char c) { return !isdigit(c); }).getAsInteger(10, bits);
  replaceAll(source, "@A", std::to_string(bits / 8));
  return source;
}

func::FuncOp kvc::warpHelper(ModuleOp module, StringRef name) {
  if (auto known = module.lookupSymbol<func::FuncOp>(name))
    return known;
  OwningOpRef<ModuleOp> parsed =
      parseSourceString<ModuleOp>(sourceOf(name), module.getContext());
  func::FuncOp function = *parsed->getOps<func::FuncOp>().begin();
  function->remove();
  module.push_back(function);
  return function;
}

//===- Shape.cpp - parsing of --shape and --model -------------------------===//

#include "codegen/Shape.h"
#include "support/JsonNesting.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace kvc;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

static Error fail(const Twine &message) {
  return llvm::createStringError(message);
}

static Expected<DType> parseDType(StringRef text) {
  if (text == "f32" || text == "float32")
    return DType::F32;
  if (text == "f16" || text == "float16")
    return DType::F16;
  if (text == "bf16" || text == "bfloat16")
    return DType::BF16;
  return fail("dtype must be f32, f16 or bf16, got '" + text + "'");
}

/// As text has them, in the order of the enums.
static constexpr StringRef cacheWords[] = {"dense", "ragged", "paged", "merged",
                                           "merged_paged"};
static constexpr StringRef intoWords[] = {"packed", "ragged", "paged"};

/// The one of the words that `value` is, as the enumerator of its place.
template <typename Enum>
static Error parseWord(StringRef name, StringRef value,
                       llvm::ArrayRef<StringRef> words, Enum &result) {
  const StringRef *word = llvm::find(words, value);
  if (word == words.end())
    return fail(name + " must be " + llvm::join(words.drop_back(), ", ") +
                " or " + words.back() + ", got '" + value + "'");
  result = Enum(word - words.begin());
  return Error::success();
}

static Error checkRange(StringRef what, int64_t value, int64_t most) {
  if (value < 1 || value > most)
    return fail(what + " must be 1 to " + Twine(most) + ", got " +
                Twine(value));
  return Error::success();
}

static Error check(const Shape &shape) {
  if (Error error = checkRange("head_dim", shape.headDim, 256))
    return error;
  return checkRange("group", shape.group, 16);
}

Expected<Shape> Shape::parse(StringRef text) {
  Shape shape;
  bool headDim = false, group = false;
  llvm::SmallVector<StringRef> seen;
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',');
  for (StringRef part : parts) {
    auto [name, value] = part.split('=');
    if (llvm::is_contained(seen, name))
      return fail("a shape has each of its parts once, got '" + name +
                  "' twice in '" + text + "'");
    seen.push_back(name);
    if (name == "dtype") {
      Expected<DType> dtype = parseDType(value);
      if (!dtype)
        return dtype.takeError();
      shape.dtype = *dtype;
      continue;
    }
    if (name == "cache") {
      if (Error error = parseWord(name, value, cacheWords, shape.cache))
        return error;
      continue;
    }
    if (name == "into") {
      if (Error error = parseWord(name, value, intoWords, shape.into))
        return error;
      continue;
    }
    int64_t number;
    if (value.getAsInteger(10, number))
      return fail(
          "a shape is head_dim=N,group=N,dtype=T,cache=C,into=C, got '" + text +
          "'");
    if (name == "head_dim")
      shape.headDim = number, headDim = true;
    else if (name == "group")
      shape.group = number, group = true;
    else
      return fail("a shape has head_dim, group, dtype, cache and into, got '" +
                  name + "'");
  }
  if (!headDim || !group)
    return fail("a shape needs head_dim and group, got '" + text + "'");
  if (Error error = check(shape))
    return error;
  return shape;
}

Expected<Shape> Shape::fromModel(StringRef dir) {
  std::string path = (dir + "/config.json").str();
  // A FIFO would wait for somebody who writes.
  if (llvm::sys::fs::exists(path) && !llvm::sys::fs::is_regular_file(path))
    return fail("cannot read " + path + ": not a regular file");
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return fail("cannot read " + path + ": " + file.getError().message());
  // The parser is recursive.
  if (isNestedDeeper((*file)->getBuffer(), 100))
    return fail(path + ": must be JSON nested at most 100 deep");
  Expected<llvm::json::Value> json = llvm::json::parse((*file)->getBuffer());
  if (!json)
    return fail(path + ": " + llvm::toString(json.takeError()));
  const llvm::json::Object *config = json->getAsObject();
  if (!config)
    return fail(path + ": must be an object");
  // null is as good as absent
  auto has = [&](StringRef key) {
    const llvm::json::Value *value = config->get(key);
    return value && !value->getAsNull();
  };
  std::string wrong; // the first one
  auto number = [&](StringRef key) -> int64_t {
    std::optional<int64_t> whole = config->getInteger(key);
    if (whole && *whole >= 1)
      return *whole;
    std::string got = "none";
    if (has(key))
      got = llvm::formatv("{0}", *config->get(key)).str().substr(0, 40);
    if (wrong.empty())
      wrong = (key + " must be a whole number above 0, got " + got).str();
    return 1;
  };
  int64_t heads = number("num_attention_heads");
  int64_t kvHeads =
      has("num_key_value_heads") ? number("num_key_value_heads") : heads;
  int64_t headDim = has("head_dim") ? number("head_dim") : 0;
  int64_t hidden = headDim ? 0 : number("hidden_size");
  if (!wrong.empty())
    return fail(path + ": " + wrong);
  if (hidden % heads)
    return fail(path +
                ": hidden_size must be a multiple of num_attention_heads where "
                "there is no head_dim, got " +
                Twine(hidden) + " and " + Twine(heads));
  if (heads % kvHeads)
    return fail(path +
                ": num_attention_heads must be a multiple of "
                "num_key_value_heads, got " +
                Twine(heads) + " and " + Twine(kvHeads));
  Shape shape;
  shape.group = heads / kvHeads;
  shape.headDim = headDim ? headDim : hidden / heads;
  StringRef dtype =
      config->getString("torch_dtype")
          .value_or(config->getString("dtype").value_or("float32"));
  Expected<DType> parsed = parseDType(dtype);
  if (!parsed)
    return fail(path + ": " + llvm::toString(parsed.takeError()));
  shape.dtype = *parsed;
  if (Error error = check(shape))
    return fail(path + ": " + llvm::toString(std::move(error)));
  return shape;
}

StringRef Shape::dtypeName() const {
  return dtype == DType::F32 ? "f32" : dtype == DType::F16 ? "f16" : "bf16";
}

std::string Shape::text() const {
  return ("head_dim=" + Twine(headDim) + ",group=" + Twine(group) + ",dtype=" +
          dtypeName() + ",cache=" + cacheName() + ",into=" + intoName())
      .str();
}

std::string Shape::suffix() const {
  std::string text =
      ("d" + Twine(headDim) + "_g" + Twine(group) + "_" + dtypeName()).str();
  if (hasRows())
    text += "_" + cacheName().str();
  if (into != Into::Packed)
    text += "_into_" + intoName().str();
  return text;
}

StringRef Shape::intoName() const { return intoWords[size_t(into)]; }

StringRef Shape::cacheName() const { return cacheWords[size_t(cache)]; }

mlir::Type Shape::elementType(mlir::MLIRContext *context) const {
  switch (dtype) {
  case DType::F32:
    return mlir::Float32Type::get(context);
  case DType::F16:
    return mlir::Float16Type::get(context);
  case DType::BF16:
    return mlir::BFloat16Type::get(context);
  }
  llvm_unreachable("all types are listed");
}

int64_t Shape::vectorWidth() const {
  int64_t width = 16 / bytesPerElement();
  while (headDim % width)
    width /= 2;
  return width;
}

//===- LayerText.cpp - a layer written out as JSON ------------------------===//

#include "dialect/reference/LayerText.h"

#include "support/JsonNesting.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <cmath>

using namespace kvc;
using namespace kvc::reference;
using llvm::Error;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

static Error fail(const Twine &message) {
  return llvm::createStringError(message);
}

/// The beginning of a value, for messages.
static std::string quote(const json::Value &value) {
  std::string text = llvm::formatv("{0}", value).str();
  return text.size() <= 40 ? text : text.substr(0, 40) + "...";
}

template <const llvm::fltSemantics &(*semantics)()>
static double rounded(double x, int64_t) {
  llvm::APFloat value(x);
  bool loses;
  value.convert(semantics(), llvm::APFloat::rmNearestTiesToEven, &loses);
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven,
                &loses);
  return value.convertToDouble();
}

namespace {

/// Lists in lists of numbers, all as long as the first of their depth.
struct Nested {
  std::vector<int64_t> shape;
  std::vector<double> data;
};

class Reader {
public:
  explicit Reader(const json::Object &object) : object(object) {}

  llvm::Expected<Layer> run();

private:
  const json::Object &object;
  Layer layer = {};

  /// A whole number; `otherwise` where there is none.
  Error readWhole(StringRef key, std::optional<int64_t> otherwise,
                  int64_t least, int64_t most, int64_t &result);
  /// Lists of the named extents. -1 is any extent, and becomes the one found.
  Error readList(StringRef key, StringRef names, std::vector<int64_t> &shape,
                 std::vector<double> &result);
  Error readScale();
  Error readType();
  Error readCache();
  Error readRows();
  Error readHeads();
  Error readState();
  Error readRowStates();
  Error readMembers();
};

} // namespace

static bool readNumber(const json::Value &value, double &number) {
  if (std::optional<double> plain = value.getAsNumber()) {
    number = *plain;
    return std::isfinite(number); // as 1e400 is not
  }
  std::optional<StringRef> text = value.getAsString();
  number = !text ? 0
                 : llvm::StringSwitch<double>(*text)
                       .Case("inf", INFINITY)
                       .Case("-inf", -INFINITY)
                       .Case("nan", NAN)
                       .Default(0);
  return number != 0;
}

static Error flatten(const json::Value &value, size_t depth, Nested &nested) {
  if (depth == nested.shape.size()) {
    double number;
    if (!readNumber(value, number))
      return fail("must hold numbers, \"inf\", \"-inf\" or \"nan\", got " +
                  quote(value));
    nested.data.push_back(number);
    return Error::success();
  }
  const json::Array *list = value.getAsArray();
  if (!list || list->empty())
    return fail("must be lists with something in them, got " + quote(value));
  int64_t &extent = nested.shape[depth];
  if (extent < 0)
    extent = int64_t(list->size());
  if (extent != int64_t(list->size()))
    return fail("must have " + Twine(extent) + " in each list of depth " +
                Twine(depth + 1) + ", got " + Twine(list->size()));
  for (const json::Value &part : *list)
    if (Error error = flatten(part, depth + 1, nested))
      return error;
  return Error::success();
}

Error Reader::readList(StringRef key, StringRef names,
                       std::vector<int64_t> &shape,
                       std::vector<double> &result) {
  const json::Value *value = object.get(key);
  if (!value)
    return Error::success();
  Nested nested{shape, {}};
  if (Error error = flatten(*value, 0, nested))
    return fail(key + " " + names + " " + llvm::toString(std::move(error)));
  shape = nested.shape;
  result = std::move(nested.data);
  return Error::success();
}

Error Reader::readWhole(StringRef key, std::optional<int64_t> otherwise,
                        int64_t least, int64_t most, int64_t &result) {
  const json::Value *value = object.get(key);
  if (!value && otherwise) {
    result = *otherwise;
    return Error::success();
  }
  std::optional<int64_t> whole = value ? value->getAsInteger() : std::nullopt;
  if (!whole || *whole < least || *whole > most)
    return fail(key + " must be a whole number of " + Twine(least) + " to " +
                Twine(most) + ", got " + (value ? quote(*value) : "none"));
  result = *whole;
  return Error::success();
}

Error Reader::readScale() {
  layer.scale = 1 / std::sqrt(double(layer.headDim));
  const json::Value *value = object.get("scale");
  if (!value)
    return Error::success();
  std::optional<double> scale = value->getAsNumber();
  if (!scale || !std::isfinite(*scale))
    return fail("scale must be a finite number, got " + quote(*value));
  layer.scale = *scale;
  return Error::success();
}

Error Reader::readType() {
  const json::Value *value = object.get("dtype");
  StringRef name = value ? value->getAsString().value_or("") : "f32";
  layer.round = llvm::StringSwitch<double (*)(double, int64_t)>(name)
                    .Case("f32", rounded<llvm::APFloat::IEEEsingle>)
                    .Case("f16", rounded<llvm::APFloat::IEEEhalf>)
                    .Case("bf16", rounded<llvm::APFloat::BFloat>)
                    .Default(nullptr);
  if (!layer.round)
    return fail("dtype must be f32, f16 or bf16, got " + quote(*value));
  if (name != "f32")
    layer.narrow = [round = layer.round](double x) { return round(x, 0); };
  return Error::success();
}

Error Reader::readCache() {
  std::vector<int64_t> shape{-1, -1, -1};
  if (!object.get("k"))
    return fail("k is missing: [kv head][token][channel]");
  if (Error error = readList("k", "[kv head][token][channel]", shape, layer.k))
    return error;
  layer.kvHeads = shape[0], layer.tokens = shape[1], layer.headDim = shape[2];
  if (Error error = readList("v", "[kv head][token][channel]", shape, layer.v))
    return error;
  return readList("raw_k", "[kv head][token][channel]", shape, layer.kRaw);
}

Error Reader::readRows() {
  std::vector<int64_t> shape{layer.kvHeads, layer.tokens};
  std::vector<double> rows;
  if (Error error = readList("rows", "[kv head][token]", shape, rows))
    return error;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] != 0 && rows[i] != 1)
      return fail("rows must hold 0 and 1, got " +
                  llvm::formatv("{0}", rows[i]).str());
    if (i % size_t(layer.tokens) == 0)
      layer.rows.emplace_back();
    layer.rows.back().push_back(rows[i] != 0);
  }
  return Error::success();
}

/// The number of query heads is that of the first of q, wo and table.
Error Reader::readHeads() {
  int64_t heads = -1;
  std::vector<int64_t> q{heads, -1, layer.headDim};
  if (Error error = readList("q", "[query head][query][channel]", q, layer.q))
    return error;
  if (!layer.q.empty()) {
    heads = q[0];
    layer.queries = q[1];
    if (layer.queries > layer.tokens)
      return fail("q must have at most as many queries as k has tokens, " +
                  Twine(layer.tokens) + ", got " + Twine(layer.queries));
  }
  std::vector<int64_t> wo{-1, heads, layer.headDim};
  if (Error error =
          readList("wo", "[output][query head][channel]", wo, layer.wo))
    return error;
  if (!layer.wo.empty())
    layer.hidden = wo[0], heads = wo[1];
  std::vector<int64_t> table{layer.layers, heads};
  if (Error error =
          readList("table", "[layer][query head]", table, layer.table))
    return error;
  heads = table[1];
  double sum = 0;
  for (double entry : layer.table) {
    if (!(entry >= 0) || std::isinf(entry))
      return fail("table must hold finite numbers of 0 or more, got " +
                  llvm::formatv("{0}", entry).str());
    sum += entry;
  }
  if (!layer.table.empty() && sum == 0)
    return fail("table must have an entry above 0, got zeros");
  layer.qHeads = heads < 0 ? layer.kvHeads : heads;
  if (layer.qHeads % layer.kvHeads)
    return fail("query heads must be a multiple of k's heads, " +
                Twine(layer.kvHeads) + ", got " + Twine(layer.qHeads));
  return Error::success();
}

Error Reader::readState() {
  std::vector<int64_t> shape{layer.tokens};
  if (Error error = readList("kept_layers", "[token]", shape, layer.keptLayers))
    return error;
  for (double count : layer.keptLayers)
    if (!(count >= 0 && count <= double(layer.layer)) ||
        count != std::floor(count))
      return fail("kept_layers must hold whole numbers of 0 to layer, " +
                  Twine(layer.layer) + ", got " +
                  llvm::formatv("{0}", count).str());
  return Error::success();
}

/// {"mass": [kv head][token]}
Error Reader::readRowStates() {
  if (object.get("new_queries")) {
    int64_t count;
    if (Error error =
            readWhole("new_queries", std::nullopt, 0, layer.tokens, count))
      return error;
    layer.newQueries = count;
  }
  const json::Value *value = object.get("row_states");
  if (!value)
    return Error::success();
  const json::Object *states = value->getAsObject();
  if (!states)
    return fail("row_states must be an object of names, got " + quote(*value));
  for (const auto &[name, numbers] : *states) {
    Nested nested{{layer.kvHeads, layer.tokens}, {}};
    if (Error error = flatten(numbers, 0, nested))
      return fail("row_states." + StringRef(name) + " [kv head][token] " +
                  llvm::toString(std::move(error)));
    layer.rowStates[StringRef(name).str()] = std::move(nested.data);
  }
  return Error::success();
}

/// By a member's own position the token of its row, or -1, and the norm of its key.
Error Reader::readMembers() {
  if (Error error = readWhole("since", 0, 0, layer.tokens, layer.since))
    return error;
  std::vector<int64_t> shape{layer.kvHeads, layer.tokens};
  std::vector<double> rows, norms;
  if (Error error = readList("member_rows", "[kv head][token]", shape, rows))
    return error;
  if (Error error = readList("member_norms", "[kv head][token]", shape, norms))
    return error;
  if (rows.empty() && norms.empty())
    return Error::success();
  if (rows.empty() || norms.empty() || layer.kRaw.empty())
    return fail("member_rows, member_norms and raw_k go together");
  if (layer.headDim % 2)
    return fail("members need an even number of channels, got " +
                Twine(layer.headDim));
  layer.members.emplace();
  for (int64_t g = 0; g < layer.kvHeads; ++g) {
    auto first = g * layer.tokens, end = first + layer.tokens;
    for (int64_t i = first; i < end; ++i) {
      double row = rows[i];
      bool right = row == -1 ||
                   (row >= 0 && row < double(layer.tokens) &&
                    row == std::floor(row) && layer.hasRow(g, int64_t(row)));
      if (!right)
        return fail(
            "member_rows must hold -1 and tokens that have a row, got " +
            llvm::formatv("{0}", row).str());
    }
    layer.members->rows.emplace_back(rows.begin() + first, rows.begin() + end);
    layer.members->norms.emplace_back(norms.begin() + first,
                                      norms.begin() + end);
  }
  double theta = 10000;
  if (const json::Value *value = object.get("rope_theta")) {
    theta = value->getAsNumber().value_or(0);
    if (!(theta > 0))
      return fail("rope_theta must be a number above 0, got " + quote(*value));
  }
  int64_t half = layer.headDim / 2;
  for (int64_t p = 0; p < layer.tokens; ++p)
    for (int64_t i = 0; i < half; ++i) {
      double angle = double(p) * std::pow(theta, -double(i) / double(half));
      layer.angles.push_back(std::cos(angle));
      layer.angles.push_back(std::sin(angle));
    }
  return Error::success();
}

llvm::Expected<Layer> Reader::run() {
  const StringRef keys[] = {
      "k",      "v",           "raw_k",        "rows",        "q",
      "wo",     "table",       "kept_layers",  "budget",      "layer",
      "layers", "scale",       "dtype",        "new_queries", "row_states",
      "since",  "member_rows", "member_norms", "rope_theta"};
  for (const auto &[key, value] : object)
    if (!llvm::is_contained(keys, StringRef(key)))
      return fail("an input has " + llvm::join(llvm::ArrayRef(keys), ", ") +
                  ", got '" + StringRef(key) + "'");
  if (Error error = readCache())
    return error;
  if (Error error = readRows())
    return error;
  // As many as the ABI counts.
  if (Error error =
          readWhole("budget", std::nullopt, 1, INT32_MAX, layer.budget))
    return error;
  if (Error error = readWhole("layers", 1, 1, 1024, layer.layers))
    return error;
  if (Error error = readWhole("layer", 0, 0, layer.layers - 1, layer.layer))
    return error;
  if (Error error = readScale())
    return error;
  if (Error error = readType())
    return error;
  if (Error error = readHeads())
    return error;
  if (Error error = readState())
    return error;
  if (Error error = readRowStates())
    return error;
  if (Error error = readMembers())
    return error;
  return layer;
}

llvm::Expected<Layer> reference::parseLayer(StringRef text) {
  if (text.size() > mostLayerBytes)
    return fail("an input must have at most " + Twine(mostLayerBytes) +
                " bytes, got " + Twine(text.size()));
  if (isNestedDeeper(text, mostLayerNesting))
    return fail("must be JSON nested at most " + Twine(mostLayerNesting) +
                " deep");
  llvm::Expected<json::Value> value = json::parse(text);
  if (!value)
    return fail("must be JSON: " + llvm::toString(value.takeError()));
  const json::Object *object = value->getAsObject();
  if (!object)
    return fail("must be an object, got " + quote(*value));
  return Reader(*object).run();
}

Error reference::checkInputs(PolicyOp policy, const Layer &layer) {
  StringRef missing;
  auto need = [&](const std::vector<double> &data, StringRef key) {
    if (data.empty() && missing.empty())
      missing = key;
  };
  auto needInput = [&](EngineInput input) {
    switch (input) {
    case EngineInput::Queries:
      return need(layer.q, "q");
    case EngineInput::RawKeys:
      return need(layer.kRaw, "raw_k");
    case EngineInput::Values:
      return need(layer.v, "v");
    case EngineInput::OutputProjection:
      return need(layer.wo, "wo");
    case EngineInput::Table:
      return need(layer.table, "table");
    case EngineInput::State:
      return need(layer.keptLayers, "kept_layers");
    case EngineInput::Keys:
    case EngineInput::Layer:
    case EngineInput::NewQueries:
    case EngineInput::RowState:
    case EngineInput::Since:
    case EngineInput::Members: // else rows are their own
    case EngineInput::Angles:
      return; // every layer has them
    }
  };
  mlir::Operation *reader = nullptr;
  policy.walk([&](NeedsOpInterface op) {
    Needs needs = op.getNeeds();
    llvm::for_each(needs.inputs, needInput);
    if (needs.prepared == Prepared::Gram) // made of the projection
      needInput(EngineInput::OutputProjection);
    if (!missing.empty() && !reader)
      reader = op;
  });
  if (missing.empty())
    return Error::success();
  return fail(reader->getName().getStringRef() + " reads " + missing +
              ", got none");
}

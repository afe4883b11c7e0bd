//===- ReferenceApply.cpp - a policy on given tensors, by the reference ---===//
//
// What `kvc-run apply` computes, op by op in double: for golden sets and for
// looking into a difference. Prints a line of JSON for each input: for each layer and
// KV head the kept tokens, of a cache of rows by their positions, what they carry on,
// and where the policy merges, the destination of each past token.
//
// usage: reference_apply POLICY.mlir BUDGET TABLE|- INPUT...
//
//===----------------------------------------------------------------------===//

#include "dialect/reference/Interpreter.h"
#include "runtime/base/DType.h"
#include "executor/eviction/MetricsReport.h"
#include "test/matrix/Problem.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <iostream>

using namespace kvc;

/// Rows [rows, d], head after head, each at its token's place; NaN elsewhere.
static std::vector<double> placed(const std::vector<double> &rows,
                                  const rt::LayerTensors &tensors,
                                  const rt::LayerFile &file, int64_t width) {
  std::vector<double> all(file.kvHeads * file.tokens * width, NAN);
  const int32_t *position = tensors.positions;
  auto row = rows.begin();
  for (uint32_t g = 0; g < file.kvHeads; ++g)
    for (int32_t r = 0; r < tensors.lengths[g]; ++r, row += width)
      std::copy(row, row + width,
                all.begin() + (g * file.tokens + *position++) * width);
  return all;
}

static void placeRows(reference::Layer &layer, const rt::LayerTensors &tensors,
                      const rt::LayerFile &file) {
  for (std::vector<double> *side : {&layer.k, &layer.v, &layer.kRaw})
    if (!side->empty())
      *side = placed(*side, tensors, file, layer.headDim);
  layer.rows.assign(file.kvHeads, std::vector<bool>(file.tokens));
  const int32_t *position = tensors.positions;
  for (uint32_t g = 0; g < file.kvHeads; ++g)
    for (int32_t r = 0; r < tensors.lengths[g]; ++r)
      layer.rows[g][size_t(*position++)] = true;
}

static reference::Layer layerOf(const rt::LayerFile &file, size_t index) {
  rt::MetricsLayer from = rt::metricsLayer(file, index);
  const rt::LayerTensors &tensors = file.layers[index];
  reference::Layer layer = {};
  layer.qHeads = from.qHeads;
  layer.kvHeads = from.kvHeads;
  layer.headDim = from.headDim;
  layer.tokens = from.tokens;
  layer.queries = from.queries;
  layer.layer = int64_t(index);
  layer.layers = int64_t(file.layers.size());
  layer.scale = from.scale;
  layer.q = from.q;
  layer.k = from.k;
  layer.v = from.v;
  layer.hidden = from.hidden;
  layer.wo = from.wo;
  if (tensors.kRaw)
    layer.kRaw =
        rt::toDouble(tensors.kRaw->data, tensors.kRaw->elements(), file.dtype);
  layer.newQueries = file.newQueries;
  for (const auto &[name, state] : tensors.states)
    layer.rowStates[name] =
        rt::toDouble(state->data, state->elements(), KVC_F32);
  if (file.ofRows) {
    for (auto &[name, numbers] : layer.rowStates)
      numbers = placed(numbers, tensors, file, 1);
    placeRows(layer, tensors, file);
  }
  layer.round = test::roundingTo(file.dtype);
  return layer;
}

static nlohmann::json describe(const reference::Kept &kept, int64_t heads) {
  nlohmann::json entry = {{"kept", kept.tokens}};
  for (const reference::Kept::Carried &carried : kept.carried)
    entry["carried"][carried.name] = carried.numbers;
  if (kept.merge) {
    std::vector<std::vector<int64_t>> destinations;
    for (int64_t g = 0; g < heads; ++g) {
      auto row = kept.merge->destination.data.begin() +
                 g * kept.merge->destination.shape[1];
      destinations.emplace_back(row, row + kept.merge->destination.shape[1]);
    }
    entry["destination"] = destinations;
  }
  return entry;
}

static int run(const std::vector<std::string> &args) {
  mlir::MLIRContext context;
  context.loadDialect<KVCDialect, mlir::arith::ArithDialect,
                      mlir::math::MathDialect>();
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(args[0], &context);
  if (!module)
    return 1;
  std::vector<double> table;
  if (args[2] != "-") {
    rt::SafetensorsFile source(args[2]);
    const rt::TensorView &view = source.at("importance");
    table = rt::toDouble(view.data, view.elements(), KVC_F32);
  }
  for (size_t input = 3; input < args.size(); ++input) {
    rt::LayerFile file(args[input]);
    std::vector<double> keptLayers(file.tokens);
    nlohmann::json result = nlohmann::json::array();
    for (size_t index = 0; index < file.layers.size(); ++index) {
      reference::Layer layer = layerOf(file, index);
      layer.budget = std::atoll(args[1].c_str());
      layer.table = table;
      layer.keptLayers = keptLayers;
      auto kept =
          reference::interpret(*module->getOps<PolicyOp>().begin(), layer);
      if (failed(kept))
        return 1;
      std::vector<bool> any(file.tokens);
      for (auto &head : kept->tokens)
        for (int64_t t : head)
          any[t] = true;
      for (size_t t = 0; t < any.size(); ++t)
        keptLayers[t] += any[t];
      result.push_back(describe(*kept, layer.kvHeads));
    }
    std::cout << result.dump() << "\n";
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 5) {
    std::cerr << "usage: reference_apply POLICY.mlir BUDGET TABLE|- INPUT...\n";
    return 2;
  }
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception &error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}

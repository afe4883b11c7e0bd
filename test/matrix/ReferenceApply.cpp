//===- ReferenceApply.cpp - a policy on given tensors, by the reference ---===//
//
// What `kvc-run apply` computes, op by op in double: for golden sets and for
// looking into a difference. Prints JSON: for each layer and KV head the kept
// tokens, and where the policy merges, the destination of each past token.
//
// usage: reference_apply POLICY.mlir INPUT BUDGET [TABLE]
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

static reference::Layer layerOf(const rt::LayerFile &file, size_t index) {
  rt::MetricsLayer from = rt::metricsLayer(file, index);
  const rt::TensorView *raw = file.layers[index].kRaw;
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
  if (raw)
    layer.kRaw = rt::toDouble(raw->data, raw->elements(), file.dtype);
  layer.round = test::roundingTo(file.dtype);
  return layer;
}

static int run(char **argv, bool withTable) {
  mlir::MLIRContext context;
  context.loadDialect<KVCDialect, mlir::arith::ArithDialect,
                      mlir::math::MathDialect>();
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(argv[1], &context);
  if (!module)
    return 1;
  rt::LayerFile file(argv[2]);
  std::vector<double> table, keptLayers(file.tokens);
  if (withTable) {
    rt::SafetensorsFile source(argv[4]);
    const rt::TensorView &view = source.at("importance");
    table = rt::toDouble(view.data, view.elements(), KVC_F32);
  }
  nlohmann::json result = nlohmann::json::array();
  for (size_t index = 0; index < file.layers.size(); ++index) {
    reference::Layer layer = layerOf(file, index);
    layer.budget = std::atoll(argv[3]);
    layer.table = table;
    layer.keptLayers = keptLayers;
    auto kept =
        reference::interpret(*module->getOps<PolicyOp>().begin(), layer, {});
    if (failed(kept))
      return 1;
    std::vector<bool> any(file.tokens);
    for (auto &head : kept->tokens)
      for (int64_t t : head)
        any[t] = true;
    for (size_t t = 0; t < any.size(); ++t)
      keptLayers[t] += any[t];
    nlohmann::json entry = {{"kept", kept->tokens}};
    if (kept->merge) {
      std::vector<std::vector<int64_t>> destinations;
      for (int64_t g = 0; g < layer.kvHeads; ++g) {
        auto row = kept->merge->destination.data.begin() +
                   g * kept->merge->destination.shape[1];
        destinations.emplace_back(row, row + kept->merge->destination.shape[1]);
      }
      entry["destination"] = destinations;
    }
    result.push_back(entry);
  }
  std::cout << result.dump() << "\n";
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 4 && argc != 5) {
    std::cerr << "usage: reference_apply POLICY.mlir INPUT BUDGET [TABLE]\n";
    return 2;
  }
  try {
    return run(argv, argc == 5);
  } catch (const std::exception &error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}

//===- RollStreams.cpp - kvc-roll-streams ----------------------------------===//

#include "codegen/Passes.h"

namespace kvc {
#define GEN_PASS_DEF_ROLLSTREAMS
#include "codegen/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

/// The loop over what is left behind the steps of `stream`; null: none.
static scf::ForOp restOf(scf::ForOp stream) {
  for (Operation *op = stream->getNextNode(); op; op = op->getNextNode())
    if (auto loop = dyn_cast<scf::ForOp>(op);
        loop && loop->hasAttr("kvc.stream_rest") &&
        loop.getLowerBound() == stream.getUpperBound())
      return loop;
  return {};
}

namespace {

struct RollStreamsPass : public kvc::impl::RollStreamsBase<RollStreamsPass> {
  void runOnOperation() override {
    getOperation().walk([](scf::ForOp stream) {
      scf::ForOp rest =
          stream->hasAttr("kvc.stream") ? restOf(stream) : scf::ForOp();
      if (!rest)
        return;
      rest.setLowerBound(stream.getLowerBound());
      stream.replaceAllUsesWith(stream.getInitArgs());
      stream.erase();
    });
  }
};

} // namespace

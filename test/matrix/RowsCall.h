//===- RowsCall.h - a policy on one layer of a cache of rows --------------===//

#ifndef KVC_TEST_MATRIX_ROWSCALL_H
#define KVC_TEST_MATRIX_ROWSCALL_H

#include "test/matrix/Judge.h"
#include "test/matrix/RowsInput.h"

#include <memory>

namespace kvc::test {

/// What one head keeps.
struct RowsKept {
  std::vector<int32_t> indices, positions;
  std::vector<std::byte> k, v;
  std::vector<float> scores; // of its past; empty: nothing was ranked
  std::vector<std::vector<float>> states; // [states][kept]
  HeadMembers members;                    // of policies that merge
};

/// Heads of all sequences.
struct RowsResult {
  std::vector<RowsKept> heads;
  std::vector<int32_t> keptLayers; // this one counted as well
  int32_t status = 0;
};
/// Where kept rows go that are not packed.
struct Placement {
  /// May be the cache itself: rows move within it. Behind the call it holds what was
  /// kept.
  Laid *into;
  bool tail = false;
  /// [batch * heads][2]: first and number of entries whose pages became free; filled
  /// where rows move within pages.
  std::vector<int32_t> freed;
};

using Module = std::unique_ptr<kvc_module, void (*)(kvc_module *)>;
/// A library on one thread. Throws if it cannot be opened.
Module openLibrary(const std::string &library, kvc_target_kind kind,
                   uint64_t seed);

/// One of the layouts of a kind; of a prompt, the one.
Layout layoutOf(kvc_cache_kind kind, uint32_t turn);

/// `raw`: keys before RoPE, laid out as `cache` is, or null. `prompt`: the cache is
/// given as a dense prompt, without a view. `placement`: null packs what is kept.
RowsResult evictRows(kvc_module *module, const Laid &cache, const Laid *raw,
                     const RowsInput &input, bool prompt = false,
                     Placement *placement = nullptr);

/// The same rows with the same bytes.
Faults compareBytes(const RowsResult &a, const RowsResult &b);

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_ROWSCALL_H

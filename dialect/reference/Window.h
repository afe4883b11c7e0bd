//===- Window.h - which tokens of each head are ranked --------------------===//

#ifndef KVC_DIALECT_REFERENCE_WINDOW_H
#define KVC_DIALECT_REFERENCE_WINDOW_H

#include "dialect/reference/Meaning.h"

namespace kvc::reference {

/// The last tokens, which are kept, and what lies in front of them, the past.
struct Window {
  Window() = default;
  /// The last `wanted` tokens, of these at most B rows a head.
  Window(const Layer &layer, int64_t wanted);

  int64_t whole = 0; // tokens that a head with all of them has in it
  int64_t past = 0;  // in front of so many tokens every head's past ends
  /// Of each KV head: rows in the window, where the past ends, and which of the `past`
  /// tokens are in it.
  std::vector<int64_t> rows, ends;
  std::vector<std::vector<bool>> isPast;
};

} // namespace kvc::reference

#endif // KVC_DIALECT_REFERENCE_WINDOW_H

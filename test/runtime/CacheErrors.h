//===- CacheErrors.h - a call over a cache, spoiled -----------------------===//

#ifndef KVC_TEST_RUNTIME_CACHEERRORS_H
#define KVC_TEST_RUNTIME_CACHEERRORS_H

#include "kvc/kvc.h"

#include <gtest/gtest.h>

#include <string>

namespace kvc::test {

/// Of a call that is right: what it refuses once something in it is wrong.
class CacheErrors : public testing::Test {
public:
  /// Makes the call, which must say this and write nothing.
  virtual void refused(kvc_status status, const std::string &text) = 0;

  /// With one number of its arrays wrong.
  void refused(int32_t &number, int32_t wrong, kvc_status status,
               const std::string &text) {
    int32_t right = number;
    number = wrong;
    refused(status, text);
    number = right;
  }
};

} // namespace kvc::test

#endif // KVC_TEST_RUNTIME_CACHEERRORS_H

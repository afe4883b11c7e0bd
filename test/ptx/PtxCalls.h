//===- PtxCalls.h - calls over caches, on the machine that runs PTX -------===//

#ifndef KVC_TEST_PTX_PTXCALLS_H
#define KVC_TEST_PTX_PTXCALLS_H

#include "kvc/ptx.h"
#include "test/runtime/AttendJudge.h"
#include "test/runtime/NewRows.h"

#include <gtest/gtest.h>

namespace kvc::test {

class PtxCalls : public testing::Test {
public:
  Random random{1};
  int32_t status = 0;

  void SetUp() override { kvc_enable_ptx(); }
  kvc_status attend(Call &call, const Laid &laid) {
    call.args.target = KVC_PTX;
    call.args.status = &status;
    return call.run(laid.view);
  }
  kvc_status append(NewRows &rows, const Laid &laid) {
    rows.args.target = KVC_PTX;
    rows.args.status = &status;
    return rows.append(laid.view);
  }
};

} // namespace kvc::test

#endif // KVC_TEST_PTX_PTXCALLS_H

//===- Table.cpp - the importance of heads -------------------------------===//

#include "test/fuzz/Target.h"

#include "executor/eviction/HeadTable.h"

using namespace kvc;

KVC_FUZZ_TARGET(table) {
  static const rt::Manifest manifest = [] {
    rt::Manifest m = {};
    rt::Slot table{false, uint32_t(rt::Argument::table)};
    m.variants = {
        {64,
         2,
         KVC_F32,
         KVC_DENSE,
         KVC_DENSE,
         4,
         {{"k", "rows", rt::Phase::Score, 32, 32, {}, {table}, false}}}};
    return m;
  }();
  auto values =
      rt::readTable(manifest, fuzz::file(bytes, "table.safetensors"), 2, 4);
  if (values.size() != 8)
    fuzz::fault("a table must have a number for each head");
}

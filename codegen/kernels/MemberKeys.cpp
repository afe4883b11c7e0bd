//===- MemberKeys.cpp - the keys of the members of a merged cache ---------===//
//
// grid (ceildiv(T, 4), Hkv, batch), 4 warps, one for each member: its row's key before
// RoPE, turned by its own position and as long as its own key was, in the model's type.
// Reads a row and d angles, writes d elements; what attends to members reads these as if
// they were rows. No shared memory, no barriers.
//
//===----------------------------------------------------------------------===//

#include "codegen/kernels/Kernels.h"
#include "kvc/artifact.h"

using namespace mlir;
using namespace kvc;

void kvc::buildMemberKeys(KernelOp kernel, const KernelSite &site) {
  constexpr int64_t warps = 4;
  std::string out = outputBuffers(kernel).front();
  LaunchSpec spec = bodyLaunch(kernel, site);
  addOwnArgs(kernel, site.shape, spec.args);
  for (const char *name : {"carries", "status"})
    addArg(spec.args, name);
  spec.blockSize = warps * warpSize;
  spec.grid = {"ceildiv(tokens," + std::to_string(warps) + ")", "kv_heads",
               "batch"};
  KernelBuilder k(site.builder, site.name, site.shape, spec, site.scratch);
  Expr head = k.block(gpu::Dimension::y), d = k.index(k.shape.headDim);
  auto s = openHead(k, k.block(gpu::Dimension::z), head);
  MemberTable members(k, s.sequence, head);
  Expr member = k.block(gpu::Dimension::x) * warps + k.warp();
  Expr ofHead = k.arg("max_tokens") * d;
  Buffer keys = k.buffer(out, {k.arg("kv_heads") * ofHead, ofHead, d});
  Buffer angles = k.buffer("rope", {d});
  int64_t half = k.shape.headDim / 2;
  Expr isRead = s.length.above(s.budget) | (k.arg("carries") > 0);
  k.when(isRead & (member < members.count()) & (s.rows > 0), [&] {
    auto inside = [&](Expr i, Expr count) {
      return i.max(k.index(0)).min(count - 1);
    };
    Expr row = inside(members.row(member), s.rows);
    Expr position = members.position(member);
    Expr angle = inside(position, k.arg("rope_positions"));
    k.when((k.lane() == 0) & (position >= k.arg("rope_positions")),
           [&] { k.setStatus(KVC_DATA_CACHE); });
    Expr norm = members.norm(member);
    k.loop(k.lane(), half, warpSize, [&](Expr i) {
      auto unit = [&](Expr dim) {
        return k
            .load(sideBuffer(k, CacheSide::RawKey),
                  {s.sequence, head, row, dim})
            .widen();
      };
      Expr x = unit(i), y = unit(i + half);
      Expr cosine = k.load(angles, {angle, i * 2});
      Expr sine = k.load(angles, {angle, i * 2 + 1});
      auto put = [&](Expr dim, Expr value) {
        k.store(k.narrow(value), keys,
                {s.sequence, head, member, dim});
      };
      put(i, (x * cosine - y * sine) * norm);
      put(i + half, (y * cosine + x * sine) * norm);
    });
  });
}

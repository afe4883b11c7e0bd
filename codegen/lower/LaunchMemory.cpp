//===- LaunchMemory.cpp - kvc-launch-memory -------------------------------===//
//
// The parts of a kernel's shared memory become places behind each other in the one array
// that its launch gives. Each is aligned as it was, and ends at a multiple of 16 bytes.
//
//===----------------------------------------------------------------------===//

#include "codegen/LaunchMemory.h"
#include "codegen/Passes.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

namespace kvc {
#define GEN_PASS_DEF_LAUNCHMEMORY
#include "codegen/Passes.h.inc"
} // namespace kvc

using namespace mlir;
using namespace kvc;

namespace {

constexpr unsigned sharedSpace = unsigned(NVVM::NVVMMemorySpace::Shared);
/// What descriptors of warpgroups ask for (PTX ISA, 128-byte swizzle).
constexpr uint64_t mostAlignment = 1024;

uint64_t bytesOf(LLVM::GlobalOp part) {
  auto type = cast<LLVM::LLVMArrayType>(part.getGlobalType());
  unsigned bits = type.getElementType().getIntOrFloatBitWidth();
  return type.getNumElements() * bits / 8;
}

struct LaunchMemoryPass : public kvc::impl::LaunchMemoryBase<LaunchMemoryPass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (auto kernel : getOperation().getOps<LLVM::LLVMFuncOp>())
      if (auto bytes = kernel->getAttrOfType<IntegerAttr>(launchBytesAttr))
        move(kernel, uint64_t(bytes.getInt()), symbols);
  }

  void move(LLVM::LLVMFuncOp kernel, uint64_t given, SymbolTable &symbols) {
    // In the order of the attributions, in which the kernel's first block names them and
    // their bytes were added up.
    llvm::MapVector<Operation *, SmallVector<LLVM::AddressOfOp>> parts;
    kernel.walk([&](LLVM::AddressOfOp address) {
      auto part = symbols.lookup<LLVM::GlobalOp>(address.getGlobalName());
      if (part && part.getAddrSpace() == sharedSpace)
        parts[part].push_back(address);
    });
    OpBuilder b(kernel);
    auto memory = LLVM::GlobalOp::create(
        b, kernel.getLoc(), LLVM::LLVMArrayType::get(b.getI8Type(), 0),
        /*isConstant=*/false, LLVM::Linkage::External,
        (kernel.getName() + "_memory").str(), Attribute(), mostAlignment,
        sharedSpace);
    uint64_t end = 0;
    for (auto &[op, addresses] : parts) {
      auto part = cast<LLVM::GlobalOp>(op);
      uint64_t place = llvm::alignTo(end, part.getAlignment().value_or(16));
      end = place + llvm::alignTo(bytesOf(part), 16);
      for (LLVM::AddressOfOp address : addresses) {
        b.setInsertionPoint(address);
        Value first = LLVM::AddressOfOp::create(b, address.getLoc(), memory);
        Value at = LLVM::GEPOp::create(b, address.getLoc(), first.getType(),
                                       b.getI8Type(), first,
                                       ArrayRef<LLVM::GEPArg>{int32_t(place)});
        address.replaceAllUsesWith(at);
        address.erase();
      }
      symbols.erase(part);
    }
    assert(end <= given && "the launch gives what the parts take");
    (void)given;
  }
};

} // namespace

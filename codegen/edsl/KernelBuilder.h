//===- KernelBuilder.h - one gpu.func under construction ------------------===//
//
// Gives kernel builders their arguments by name, loops, memory and the block
// and warp coordinates. Knows nothing of what a kernel computes.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_CODEGEN_EDSL_KERNELBUILDER_H
#define KVC_CODEGEN_EDSL_KERNELBUILDER_H

#include "codegen/edsl/Expr.h"
#include "codegen/Shape.h"
#include "codegen/simt/SIMT.h"
#include "dialect/KVCDialect.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/ADT/StringMap.h"

#include <functional>
#include <map>

namespace kvc {

/// Memory with strides, innermost last. Addresses are computed in index.
struct Buffer {
  mlir::Value memref;
  llvm::SmallVector<Expr, 5> strides;
  /// Where an element lies, if strides alone do not say so.
  std::function<Expr(llvm::ArrayRef<Expr> at)> place = nullptr;
};

/// What a kernel is launched with.
struct LaunchSpec {
  /// Names of KernelArgs.h, or "scratch.N".
  std::vector<std::string> args;
  int64_t blockSize = 0;
  /// What the kernel reads of the caller's memory it may write as well.
  bool overwrites = false;
  /// Elements of the model's type are only moved, as integers of their size: a bf16 that
  /// goes past a barrier would be rounded by LLVM on the way.
  bool moves = false;
  /// Calls of up to so many tokens go without it, and calls of more; 0: none does.
  int64_t aboveTokens = 0, upToTokens = 0;
  /// Which of them has the keys of members, for kernels over these.
  std::string keys = {};
  /// Three expressions over batch, q_heads, kv_heads, tokens, index_capacity,
  /// numbers, ceildiv(a,b) and min(a,b), as the manifest has them.
  std::array<std::string, 3> grid;
};

/// An index, as an Expr or as a number that the builder knows.
class Bound {
public:
  Bound(Expr value) : value(value) {}
  Bound(int64_t number) : number(number) {}

private:
  friend class KernelBuilder;
  Expr value; // not valid: `number`
  int64_t number = 0;
};

class KernelBuilder {
public:
  /// Opens a gpu.func named `name` at the builder's place. `spec` is recorded
  /// on the function for the manifest.
  KernelBuilder(mlir::ImplicitLocOpBuilder &builder, llvm::StringRef name,
                const Shape &shape, const LaunchSpec &spec,
                const llvm::StringMap<mlir::Type> &scratchTypes);

  mlir::ImplicitLocOpBuilder &b;
  const Shape shape;
  const std::string keys; // LaunchSpec

  //===--- constants and arguments ---------------------------------------===//
  Expr index(int64_t n);
  Expr i32(int64_t n);
  Expr f32(double x);
  Expr boolean(bool x);
  Expr zero(mlir::Type type);
  /// A scalar argument.
  Expr arg(llvm::StringRef name);
  /// A pointer argument with strides; the innermost stride 1 is implied.
  Buffer buffer(llvm::StringRef name, llvm::ArrayRef<Expr> outerStrides);
  /// Memory of the block, `count` elements, from a multiple of `alignment` bytes on.
  Buffer shared(mlir::Type element, int64_t count,
                llvm::ArrayRef<Expr> outerStrides = {}, int64_t alignment = 16);
  /// Memory of the thread alone, `count` elements of 32 bits. Only the host's form of a
  /// walk (`eitherForm`) uses it: a GPU has registers and no cache for so much.
  Buffer own(mlir::Type element, int64_t count);

  /// Makes a value once, behind the last of the values `of` that it is made from,
  /// and has it from then on: it may be asked for wherever these are known. Beside
  /// them `make` uses arguments and constants only.
  Expr once(llvm::StringRef name, llvm::ArrayRef<Expr> of,
            llvm::function_ref<Expr()> make);

  //===--- coordinates ----------------------------------------------------===//
  Expr thread();
  Expr lane();
  Expr warp();
  Expr block(mlir::gpu::Dimension dimension);

  /// StartsLate.h
  void startLate();

  //===--- memory ---------------------------------------------------------===//
  Expr load(const Buffer &buffer, llvm::ArrayRef<Expr> at);
  void store(Expr value, const Buffer &buffer, llvm::ArrayRef<Expr> at);
  /// `width` consecutive elements, aligned to their size. Vectors are whole words: one
  /// element of 16 bits is a number here, and no vector.
  Expr loadVector(const Buffer &buffer, llvm::ArrayRef<Expr> at, int64_t width);
  void storeVector(Expr value, const Buffer &buffer, llvm::ArrayRef<Expr> at);
  /// Has the line of an element brought near, for the host's form of a walk. It may lie
  /// outside of the buffer.
  void prefetch(const Buffer &buffer, llvm::ArrayRef<Expr> at);
  /// An f32 in the model's type, rounded to nearest even.
  Expr narrow(Expr x);
  /// Element `i` of a vector; a vector of such.
  Expr element(Expr vector, int64_t i);
  Expr vectorOf(llvm::ArrayRef<Expr> elements);
  /// The vector's bits as 32-bit registers.
  llvm::SmallVector<Expr> registers(Expr vector);
  /// The bits of one into as many elements of a buffer, from that one on.
  void storeRegister(Expr bits, const Buffer &buffer, llvm::ArrayRef<Expr> at);
  /// Begins to copy `width` elements, 4, 8 or 16 bytes, from global to shared
  /// memory. They are there for the thread behind waitForCopies, for others
  /// behind a barrier after that. Places that are so many elements behind those of
  /// other copies take an addition, or none, where that is said by offsets.
  void copyAsync(const Buffer &from, llvm::ArrayRef<Expr> fromAt,
                 const Buffer &to, llvm::ArrayRef<Expr> toAt, int64_t width,
                 Expr fromOffset = {}, Expr toOffset = {});
  /// Makes a group of the copies that were begun since the last one.
  void commitCopies();
  /// Waits for all of the thread's groups but the last `pending`.
  void waitForCopies(int64_t pending);
  /// What the thread has copied is there for products of warpgroups, too, behind a
  /// barrier.
  void publishCopies();
  /// Returns what was there before.
  Expr atomicAdd(Expr value, const Buffer &buffer, llvm::ArrayRef<Expr> at);
  /// Of i32 in global memory.
  void atomicMax(Expr value, const Buffer &buffer, llvm::ArrayRef<Expr> at);
  /// Sets bits of the call's status word: KVC_DATA_* of kvc/artifact.h.
  void setStatus(int32_t bits);

  //===--- control --------------------------------------------------------===//
  using Values = llvm::SmallVector<Expr>;
  /// for (i = from; i < to; i += step) with values carried around.
  Values loop(Bound from, Bound to, Bound step, llvm::ArrayRef<Expr> carried,
              llvm::function_ref<Values(Expr, llvm::ArrayRef<Expr>)> body);
  void loop(Bound from, Bound to, Bound step,
            llvm::function_ref<void(Expr)> body);
  /// The same with one value: body(i, value so far) is the next.
  Expr fold(Bound from, Bound to, Bound step, Expr start,
            llvm::function_ref<Expr(Expr, Expr)> body);
  /// for (i = from; i < to; i += step), `together` at a time where there are so
  /// many: first make(i) for each of them, so that their loads are in flight
  /// together, then use(i, made, carried), one by one in order.
  Values stream(Expr from, Expr to, int64_t step, llvm::ArrayRef<Expr> carried,
                llvm::function_ref<Values(Expr)> make,
                llvm::function_ref<Values(Expr, llvm::ArrayRef<Expr>,
                                          llvm::ArrayRef<Expr>)>
                    use,
                int64_t together = 4);
  /// The same, where `make` and `use` may be called behind `to` and do nothing there: all
  /// steps are written out together.
  Values streamOver(Expr from, Expr to, int64_t step,
                    llvm::ArrayRef<Expr> carried,
                    llvm::function_ref<Values(Expr)> make,
                    llvm::function_ref<Values(Expr, llvm::ArrayRef<Expr>,
                                              llvm::ArrayRef<Expr>)>
                        use,
                    int64_t together = 4);
  /// One walk in two forms that come to the same: in a plain loop, for the host, and
  /// with several steps written out, for a GPU (kvc-roll-streams).
  Values eitherForm(llvm::function_ref<Values()> oneByOne,
                    llvm::function_ref<Values()> writtenOut);
  void when(Expr condition, llvm::function_ref<void()> then);
  Values choose(Expr condition, llvm::function_ref<Values()> yes,
                llvm::function_ref<Values()> no);

  //===--- threads together -----------------------------------------------===//
  /// Orders all memory of the block.
  void barrier();
  /// Orders that of a team: so many threads, from a multiple of that on. Between two
  /// barriers of the block all teams pass as many (simt.team_barrier).
  void teamBarrier(int64_t threads);
  /// Orders that of the blocks beside each other along x, so many in a cluster, which run at
  /// the same time (sm_90); a kernel's waits all have the same number.
  void clusterBarrier(int64_t blocks);
  /// To the first block of the cluster, all of which must have met before.
  void storeToFirst(Expr value, const Buffer &buffer, llvm::ArrayRef<Expr> at);
  void syncWarp();
  Expr shuffleXor(Expr value, int64_t mask);
  /// The value of lane - distance; the lane's own below it.
  Expr shuffleUp(Expr value, int64_t distance);
  Expr ballot(Expr bit);
  Expr popcount(Expr bits);
  /// The sum of every lane's i32.
  Expr sumOfLanes(Expr number);
  Expr exp2(Expr x);
  Expr log2(Expr x);
  Expr sqrt(Expr x);

  Expr expr(mlir::Value value) { return {b, value}; }
  mlir::gpu::GPUFuncOp func;

private:
  mlir::Value address(const Buffer &buffer, llvm::ArrayRef<Expr> at);
  Expr index(const Bound &bound) {
    return bound.value.valid() ? bound.value : index(bound.number);
  }
  llvm::StringMap<mlir::Value> arguments;
  std::map<std::pair<std::string, std::vector<void *>>, mlir::Value> madeOnce;
};

} // namespace kvc

#endif // KVC_CODEGEN_EDSL_KERNELBUILDER_H

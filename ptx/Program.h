//===- Program.h - PTX as the machine runs it -----------------------------===//
//
// PTX ISA 7 and 8, as far as kvc-opt and clang emit it. A register, an immediate,
// a special register and the address of a variable are all 32 numbers, one a
// lane: an instruction reads and writes rows of such numbers and need not know
// which of them it got.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_PTX_PROGRAM_H
#define KVC_PTX_PROGRAM_H

#include "ptx/profile/Cost.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace kvc::ptx {

/// One value a lane. Narrow values are in the low bits, what is above them is
/// undefined; a predicate is 0 or 1.
using Lanes = std::array<uint64_t, 32>;

class Warp;
struct Instruction;
/// Executes an instruction in the lanes whose bits are set.
using Handler = void (*)(Warp &warp, const Instruction &instruction,
                         uint32_t lanes);

/// The rows of a warp: constants, special registers and registers of a kernel,
/// by one number.
using Row = uint32_t;

enum class Special { Tid, Ntid, Ctaid, Nctaid, Lane, Warp };

struct Operand {
  Row row = 0;
  int64_t offset = 0;   // of an address
  bool negated = false; // a predicate
};

/// What the scheduler must know of an instruction.
enum class Flow : uint8_t {
  Next,           // goes on behind itself
  Branch,         // to `target`, where the guard holds
  Return,         // ends the lanes
  Barrier,        // waits for the block, or a team of its threads
  ClusterBarrier, // waits for the blocks of its cluster
  Warp            // all lanes of the warp run it together
};

struct Instruction {
  Handler run = nullptr;
  Flow flow = Flow::Next;
  bool guarded = false;
  /// wgmma.mma_async: registers stay in use behind it (WarpgroupProducts.h).
  bool keeps = false;
  Operand guard;
  std::vector<Row> results;
  std::vector<Operand> operands;
  uint32_t target = 0; // of a branch: an index into the kernel's code
  uint32_t join = 0;   // of a guarded branch: where its lanes meet again
  uint32_t line = 0;   // in the PTX
  std::string opcode;  // for messages
  Cost cost;           // for profiles
};

/// That every GPU with clusters can run at the same time, sm_90 and later.
inline constexpr uint32_t mostBlocksOfCluster = 8;

struct Parameter {
  uint32_t offset, bytes;
};

struct Kernel {
  std::string name;
  std::vector<Instruction> code;
  std::vector<Parameter> parameters;
  uint32_t parameterBytes = 0;
  uint32_t sharedBytes = 0;
  uint32_t maxThreads = 1024; // .maxntid
  /// Blocks of a cluster, by dimension: .reqnctapercluster.
  std::array<uint32_t, 3> cluster = {1, 1, 1};
  /// It has griddepcontrol.wait, so it may begin while an earlier launch still runs.
  bool waits = false;
  /// Rows are numbered: constants, special registers, registers.
  std::vector<uint64_t> constants;
  std::vector<std::pair<Special, int>> specials; // and the dimension: 0 is x
  uint32_t registers = 0;
  size_t rows() const { return constants.size() + specials.size() + registers; }
  bool keeps = false; // some instruction does
  /// Declared registers, for messages: from which one on, a name, and whether a number
  /// follows it.
  struct Name {
    uint32_t first;
    std::string text;
    bool numbered;
  };
  std::vector<Name> names;
  std::string nameOf(Row row) const;
};

/// Those of a launch, as a kernel has them, at an address that is aligned for any of them.
class ParameterBytes {
public:
  explicit ParameterBytes(const Kernel &kernel)
      : room(kernel.parameterBytes / sizeof(Piece) + 1),
        size(kernel.parameterBytes) {}
  std::span<std::byte> all() {
    return std::as_writable_bytes(std::span(room)).first(size);
  }

private:
  struct alignas(128) Piece {
    std::byte bytes[128];
  };
  std::vector<Piece> room;
  size_t size;
};

struct Program {
  std::unordered_map<std::string, Kernel> kernels;
};

} // namespace kvc::ptx

#endif // KVC_PTX_PROGRAM_H

//===- Seal.cpp - whether a library is as kvc-opt wrote it, for here ------===//
//
// The system's loader maps what headers promise and writes relocations where
// they point: a file that is cut short or damaged ends the process there. So
// every byte is checked before. The file is read, not mapped: one that shrinks
// meanwhile is an error then, no signal.
//
//===----------------------------------------------------------------------===//

#include "runtime/plan/Seal.h"

#include "runtime/base/Failure.h"

#include "kvc/artifact.h"

#include <boost/crc.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kvc::rt;

namespace {

/// An open file.
class Descriptor {
public:
  /// A pipe without a writer would wait for ever.
  explicit Descriptor(const std::string &path)
      : number(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (number >= 0)
      close(number);
  }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;

  const int number;
};

/// e_machine of ELF; 0: nobody knows it here.
#if defined(__x86_64__)
constexpr unsigned ownMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned ownMachine = EM_AARCH64;
#else
constexpr unsigned ownMachine = EM_NONE;
#endif

std::string machineName(unsigned machine) {
  return machine == EM_X86_64    ? "x86_64"
         : machine == EM_AARCH64 ? "aarch64"
                                 : formatted("ELF machine {}", machine);
}

} // namespace

void kvc::rt::checkSeal(const std::string &path) {
  auto refuse = [&](const std::string &why) {
    return fail(KVC_BAD_ARTIFACT, "cannot open a policy library: {}: {}", path,
                why);
  };
  Descriptor file(path);
  struct stat info;
  if (file.number < 0 || fstat(file.number, &info) != 0)
    throw refuse(std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    throw refuse("not a regular file");

  auto size = uint64_t(info.st_size), done = uint64_t(0);
  auto read = [&](void *to, size_t most) {
    ssize_t count = pread(file.number, to, most, off_t(done));
    if (count < 0)
      throw refuse(std::strerror(errno));
    if (count == 0)
      throw refuse("it became shorter while it was read");
    done += uint64_t(count);
    return size_t(count);
  };

  auto readAt = [&](uint64_t place, auto &to) {
    done = place;
    for (size_t have = 0; have < sizeof to;)
      have += read(reinterpret_cast<char *>(&to) + have, sizeof to - have);
  };

  kvc_library_seal seal = {};
  if (size >= sizeof seal)
    readAt(size - sizeof seal, seal);
  if (std::memcmp(seal.magic, KVC_SEAL_MAGIC, sizeof seal.magic) != 0)
    throw refuse("it does not end as kvc-opt --emit=library ends a file; cut "
                 "short or another's");
  if (seal.size != size)
    throw refuse(formatted("it must have {} bytes, got {}", seal.size, size));

  boost::crc_32_type checksum;
  std::vector<char> piece(1 << 16);
  done = 0;
  while (done < size - sizeof seal)
    checksum.process_bytes(
        piece.data(),
        read(piece.data(),
             std::min<uint64_t>(piece.size(), size - sizeof seal - done)));
  if (checksum.checksum() != seal.crc32)
    throw refuse(formatted("it is damaged: its checksum must be {:08x}, got "
                           "{:08x}",
                           seal.crc32, checksum.checksum()));

  // Of a library for another machine the loader says that there is no such file.
  Elf64_Ehdr header = {};
  if (ownMachine && size >= sizeof header) {
    readAt(0, header);
    if (header.e_machine != ownMachine)
      throw refuse(formatted("it must be for this machine, {}, got one for {}",
                             machineName(ownMachine),
                             machineName(header.e_machine)));
  }
}

//===- MappedFile.h - a file in memory, read only -------------------------===//

#ifndef KVC_EXECUTOR_IO_MAPPEDFILE_H
#define KVC_EXECUTOR_IO_MAPPEDFILE_H

#include <cstddef>
#include <string>

namespace kvc::rt {

class MappedFile {
public:
  /// Throws Failure that names the file and the system's reason.
  explicit MappedFile(const std::string &path);
  ~MappedFile();
  MappedFile(MappedFile &&other) noexcept;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const std::byte *data() const { return memory; }
  size_t size() const { return bytes; }

private:
  const std::byte *memory = nullptr;
  size_t bytes = 0;
};

/// The whole file as text. Throws Failure.
std::string readText(const std::string &path);

} // namespace kvc::rt

#endif // KVC_EXECUTOR_IO_MAPPEDFILE_H

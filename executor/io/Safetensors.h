//===- Safetensors.h - reading and writing safetensors files --------------===//

#ifndef KVC_EXECUTOR_IO_SAFETENSORS_H
#define KVC_EXECUTOR_IO_SAFETENSORS_H

#include "executor/io/Bytes.h"
#include "executor/io/MappedFile.h"
#include "kvc/kvc.h"
#include "support/OutputFiles.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kvc::rt {

/// A tensor of a file: row-major, little-endian.
struct TensorView {
  std::string dtype; // "F32", "F16", "BF16", "I32", ...
  std::vector<uint64_t> shape;
  const std::byte *data;
  size_t bytes;

  uint64_t elements() const;
  /// The element type, if it is one of a cache's.
  std::optional<kvc_dtype> kvcDtype() const;
  /// "F32 [4, 128, 64]", for messages.
  std::string describe() const;
};

/// A file, checked as a whole when it is opened: header length, JSON, types,
/// shapes, and offsets that match the shapes, stay inside the file and neither
/// overlap nor leave holes.
class SafetensorsFile {
public:
  /// Throws Failure that names the file, the rule and the value.
  explicit SafetensorsFile(const std::string &path);

  const TensorView *find(const std::string &name) const;
  /// Throws Failure if it is missing.
  const TensorView &at(const std::string &name) const;

  const std::string path;
  std::map<std::string, TensorView> tensors;
  std::map<std::string, std::string> metadata;

private:
  MappedFile file;
};

struct TensorData {
  std::string dtype;
  std::vector<uint64_t> shape;
  Bytes data;

  template <typename T>
  static TensorData of(std::string dtype, std::vector<uint64_t> shape,
                       const std::vector<T> &values) {
    auto *begin = reinterpret_cast<const std::byte *>(values.data());
    return {std::move(dtype),
            std::move(shape),
            {begin, begin + values.size() * sizeof(T)}};
  }
};

/// "F32", "F16" or "BF16".
std::string safetensorsName(kvc_dtype dtype);
/// Bytes of one element, 0 for a type the format does not have.
size_t safetensorsBytes(const std::string &dtype);

using Tensors = std::map<std::string, TensorData>;

/// Before the work whose results they are to hold: throws Failure where the
/// files cannot all be written, or one of them is `read`.
void checkWritable(const std::vector<std::string> &paths,
                   const std::vector<std::string> &read = {});

/// Writes all files or none, as support/OutputFiles.h has it. Throws Failure.
void writeFiles(const std::vector<OutputFile> &files);

/// A file to be written, its tensors in the order of their names.
struct TensorFile {
  std::string path;
  const Tensors &tensors;
  std::map<std::string, std::string> metadata = {};
};

/// Writes these and `others`, all or none, from where they are. Throws Failure.
void writeTensors(const std::vector<TensorFile> &files,
                  const std::vector<OutputFile> &others = {});

} // namespace kvc::rt

#endif // KVC_EXECUTOR_IO_SAFETENSORS_H

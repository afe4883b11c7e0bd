//===- Safetensors.cpp - reading and writing safetensors files ------------===//

#include "executor/io/Safetensors.h"

#include "runtime/base/DType.h"
#include "runtime/base/Failure.h"
#include "executor/io/Json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>
#include <list>

using namespace kvc::rt;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little,
              "safetensors is little-endian");

// As the format's own reader has it.
static constexpr uint64_t maxHeaderBytes = 100'000'000;

size_t kvc::rt::safetensorsBytes(const std::string &dtype) {
  static const std::map<std::string, size_t> sizes = {
      {"F64", 8}, {"I64", 8}, {"U64", 8},     {"F32", 4},     {"I32", 4},
      {"U32", 4}, {"F16", 2}, {"BF16", 2},    {"I16", 2},     {"U16", 2},
      {"I8", 1},  {"U8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"BOOL", 1}};
  auto it = sizes.find(dtype);
  return it == sizes.end() ? 0 : it->second;
}

std::string kvc::rt::safetensorsName(kvc_dtype dtype) {
  std::string name = dtypeName(dtype);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  return name;
}

std::optional<kvc_dtype> TensorView::kvcDtype() const {
  for (kvc_dtype known : {KVC_F32, KVC_F16, KVC_BF16})
    if (dtype == safetensorsName(known))
      return known;
  return std::nullopt;
}

uint64_t TensorView::elements() const {
  uint64_t count = 1;
  for (uint64_t extent : shape)
    count *= extent;
  return count;
}

std::string TensorView::describe() const {
  return formatted("{} [{}]", dtype, fmt::join(shape, ", "));
}

namespace {

TensorView parseTensor(const std::string &path, const std::string &name,
                       const json &entry, const std::byte *data,
                       uint64_t dataBytes,
                       std::pair<uint64_t, uint64_t> &range) {
  auto bad = [&](const std::string &rule, const json &value) {
    return fail(KVC_BAD_ARGUMENT, "{}: tensor '{}': {}, got {}", path, name,
                rule, quote(value));
  };
  if (!entry.is_object() || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets"))
    throw bad("an entry must have dtype, shape and data_offsets", entry);
  TensorView tensor;
  const json &dtype = entry["dtype"];
  if (!dtype.is_string() || !safetensorsBytes(dtype.get<std::string>()))
    throw bad("dtype must be one of the format", dtype);
  tensor.dtype = dtype.get<std::string>();
  uint64_t bytes = safetensorsBytes(tensor.dtype);
  const json &shape = entry["shape"];
  if (!shape.is_array())
    throw bad("shape must be a list", shape);
  for (const json &extent : shape) {
    if (!extent.is_number_unsigned() ||
        __builtin_mul_overflow(bytes, extent.get<uint64_t>(), &bytes))
      throw bad("shape must be whole numbers whose product fits", shape);
    tensor.shape.push_back(extent.get<uint64_t>());
  }
  const json &offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 ||
      !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
    throw bad("data_offsets must be two whole numbers", offsets);
  range = {offsets[0].get<uint64_t>(), offsets[1].get<uint64_t>()};
  if (range.first > range.second || range.second > dataBytes)
    throw bad(formatted("data_offsets must lie within the {} bytes of data",
                        dataBytes),
              offsets);
  if (range.second - range.first != bytes)
    throw bad(formatted("{} needs {} bytes", tensor.describe(), bytes),
              offsets);
  tensor.data = data + range.first;
  tensor.bytes = bytes;
  return tensor;
}

} // namespace

SafetensorsFile::SafetensorsFile(const std::string &path)
    : path(path), file(path) {
  uint64_t headerBytes = 0;
  if (file.size() < sizeof headerBytes)
    throw fail(KVC_BAD_ARGUMENT,
               "{}: a safetensors file has at least 8 bytes, got {}", path,
               file.size());
  std::memcpy(&headerBytes, file.data(), sizeof headerBytes);
  uint64_t rest = file.size() - sizeof headerBytes;
  if (headerBytes > rest || headerBytes > maxHeaderBytes)
    throw fail(
        KVC_BAD_ARGUMENT,
        "{}: the header must fit into the file of {} bytes, got a header "
        "of {} bytes",
        path, file.size(), headerBytes);
  auto *text = reinterpret_cast<const char *>(file.data()) + sizeof headerBytes;
  json header = parseJson({text, headerBytes});
  if (!header.is_object())
    throw fail(KVC_BAD_ARGUMENT, "{}: the header must be a JSON object", path);
  const std::byte *data = file.data() + sizeof headerBytes + headerBytes;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (auto &[name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object())
        throw fail(KVC_BAD_ARGUMENT, "{}: __metadata__ must be an object",
                   path);
      for (auto &[key, value] : entry.items())
        if (value.is_string())
          metadata[key] = value.get<std::string>();
      continue;
    }
    std::pair<uint64_t, uint64_t> range;
    tensors[name] =
        parseTensor(path, name, entry, data, rest - headerBytes, range);
    ranges.push_back(range);
  }
  std::sort(ranges.begin(), ranges.end());
  uint64_t end = 0;
  for (auto [first, last] : ranges) {
    if (first != end)
      throw fail(
          KVC_BAD_ARGUMENT,
          "{}: tensors must lie one behind the other, got a {} at byte {}",
          path, first < end ? "overlap" : "hole", std::min(first, end));
    end = last;
  }
  if (end != rest - headerBytes)
    throw fail(KVC_BAD_ARGUMENT,
               "{}: tensors must fill the {} bytes of data, got {}", path,
               rest - headerBytes, end);
}

const TensorView *SafetensorsFile::find(const std::string &name) const {
  auto it = tensors.find(name);
  return it == tensors.end() ? nullptr : &it->second;
}

const TensorView &SafetensorsFile::at(const std::string &name) const {
  if (const TensorView *tensor = find(name))
    return *tensor;
  throw fail(KVC_BAD_ARGUMENT, "{}: tensor '{}' is missing", path, name);
}

/// What a file begins with; the tensors are behind it.
static std::string headerOf(const TensorFile &file) {
  json header = json::object();
  if (!file.metadata.empty())
    header["__metadata__"] = file.metadata;
  uint64_t offset = 0;
  for (auto &[name, tensor] : file.tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {offset, offset + tensor.data.size()}}};
    offset += tensor.data.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t bytes = text.size();
  return std::string(reinterpret_cast<const char *>(&bytes), sizeof bytes) +
         text;
}

void kvc::rt::checkWritable(const std::vector<std::string> &paths,
                            const std::vector<std::string> &read) {
  if (std::string wrong = checkOutputs(paths, read); !wrong.empty())
    throw fail(KVC_BAD_ARGUMENT, "{}", wrong);
}

void kvc::rt::writeFiles(const std::vector<OutputFile> &files) {
  if (std::string wrong = writeOutputs(files); !wrong.empty())
    throw fail(KVC_BAD_ARGUMENT, "{}", wrong);
}

void kvc::rt::writeTensors(const std::vector<TensorFile> &files,
                           const std::vector<OutputFile> &others) {
  std::list<std::string> headers;
  std::vector<OutputFile> all;
  for (const TensorFile &file : files) {
    OutputFile &out = all.emplace_back(OutputFile{file.path, {}});
    out.parts.push_back(headers.emplace_back(headerOf(file)));
    for (auto &[name, tensor] : file.tensors)
      out.parts.emplace_back(reinterpret_cast<const char *>(tensor.data.data()),
                             tensor.data.size());
  }
  all.insert(all.end(), others.begin(), others.end());
  writeFiles(all);
}

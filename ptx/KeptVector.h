//===- KeptVector.h - memory that blocks hand on --------------------------===//

#ifndef KVC_PTX_KEPTVECTOR_H
#define KVC_PTX_KEPTVECTOR_H

#include <cstddef>
#include <utility>
#include <vector>

namespace kvc::ptx {

/// A vector whose memory the operating-system thread keeps for its next block: registers
/// and shared memory are large, and the system would have to clear new pages for each.
template <typename T> class KeptVector {
public:
  KeptVector(size_t size, const T &value) {
    if (!spare().empty()) {
      values.swap(spare().back());
      spare().pop_back();
    }
    values.assign(size, value);
  }
  ~KeptVector() {
    if (values.capacity())
      spare().push_back(std::move(values));
  }
  KeptVector(KeptVector &&other) noexcept : values(std::move(other.values)) {}
  KeptVector &operator=(KeptVector &&) = delete;

  T &operator[](size_t i) { return values[i]; }
  const T &operator[](size_t i) const { return values[i]; }
  size_t size() const { return values.size(); }

private:
  static std::vector<std::vector<T>> &spare() {
    static thread_local std::vector<std::vector<T>> vectors;
    return vectors;
  }
  std::vector<T> values;
};

} // namespace kvc::ptx

#endif // KVC_PTX_KEPTVECTOR_H

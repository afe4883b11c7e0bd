//===- ChipName.h - what PTX was made for ---------------------------------===//

#ifndef KVC_RUNTIME_DEVICE_CHIPNAME_H
#define KVC_RUNTIME_DEVICE_CHIPNAME_H

#include <charconv>
#include <compare>
#include <string_view>

namespace kvc::rt {

/// "sm_90": that chip and all newer ones. "sm_90a": that one alone, with instructions that
/// others have not. The larger one is the closer to a chip that runs both.
struct ChipName {
  explicit ChipName(std::string_view chip) {
    alone = chip.ends_with('a');
    if (alone)
      chip.remove_suffix(1);
    const char *end = chip.data() + chip.size();
    int value = 0;
    if (chip.starts_with("sm_") &&
        std::from_chars(chip.data() + 3, end, value).ptr == end)
      number = value;
  }
  int number = 0; // 90; 0: it is no chip's name
  bool alone;

  bool runsOn(int chip) const {
    return number && (alone ? number == chip : number <= chip);
  }
  /// True where kernels are in their forms that multiply by warpgroups (wgmma).
  bool hasWarpgroups() const { return alone && number == 90; }
  auto operator<=>(const ChipName &) const = default;
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_DEVICE_CHIPNAME_H

//===- Format.cpp ---------------------------------------------------------===//

#include "runtime/base/Format.h"

std::string kvc::rt::formattedArgs(fmt::string_view text,
                                   fmt::format_args args) {
  return fmt::vformat(text, args);
}

//===- OneLine.cpp - a text as part of one line ---------------------------===//

#include "support/OneLine.h"

std::string kvc::oneLine(std::string_view text) {
  std::string line;
  for (unsigned char c : text)
    if (c == '\n')
      line += "\\n";
    else
      line += c < 0x20 || c == 0x7f ? '?' : char(c);
  return line;
}

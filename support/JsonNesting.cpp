//===- JsonNesting.cpp - how deep a text of JSON goes ---------------------===//

#include "support/JsonNesting.h"

bool kvc::isNestedDeeper(std::string_view json, size_t most) {
  size_t depth = 0;
  bool inText = false;
  for (size_t i = 0; i < json.size(); ++i) {
    char c = json[i];
    if (inText && c == '\\')
      ++i;
    else if (c == '"')
      inText = !inText;
    else if (inText)
      continue;
    else if ((c == '[' || c == '{') && ++depth > most)
      return true;
    else if ((c == ']' || c == '}') && depth)
      --depth;
  }
  return false;
}

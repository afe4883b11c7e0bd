//===- JsonNesting.h - how deep a text of JSON goes -----------------------===//

#ifndef KVC_SUPPORT_JSONNESTING_H
#define KVC_SUPPORT_JSONNESTING_H

#include <cstddef>
#include <string_view>

namespace kvc {

/// True where brackets outside of texts are nested deeper than `most`. To be
/// asked before a reader that calls itself for every bracket is.
bool isNestedDeeper(std::string_view json, size_t most);

} // namespace kvc

#endif // KVC_SUPPORT_JSONNESTING_H

//===- Json.cpp - JSON of files that nobody vouches for -------------------===//

#include "executor/io/Json.h"

#include "support/JsonNesting.h"

using namespace kvc::rt;
using nlohmann::json;

static constexpr size_t deepest = 100;

json kvc::rt::parseJson(std::string_view text) {
  if (isNestedDeeper(text, deepest))
    return json(json::value_t::discarded);
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string kvc::rt::quote(const json &value) {
  return excerpt(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

//===- Writer.cpp - a policy's text, and the values it has so far ---------===//

#include "test/random/Writer.h"

using namespace kvc;
using namespace kvc::random;

std::string Type::text() const {
  const char *const elements[] = {"f32", "i32", "i1", "index"};
  const char *const shapes[] = {"", "?x", "?x?x", "?x?x", "?x?x?x", "?x?x?x"};
  std::string name = elements[int(element)];
  return dims == Dims::Scalar ? name
                              : "tensor<" + (shapes[int(dims)] + name) + ">";
}

Value Writer::add(const std::string &body, Value value) {
  value.name = "%" + std::to_string(values.size());
  line(value.name + " = " + body);
  values.push_back(value);
  return value;
}

void Writer::line(const std::string &body) { lines += "  " + body + "\n"; }

std::optional<Value> Writer::earlier(Random &random, const Type &type) const {
  std::vector<const Value *> found;
  for (const Value &value : values)
    if (value.type == type)
      found.push_back(&value);
  if (found.empty())
    return std::nullopt;
  return *random.of(found);
}

std::string Writer::text() const {
  return "kvc.policy @random {\n" + lines + "}\n";
}

//===- Cases.cpp - what a policy is run on --------------------------------===//

#include "test/random/Cases.h"

#include "runtime/base/Failure.h"
#include "test/random/Random.h"

#include "runtime/base/Format.h"

#include <sstream>

using namespace kvc;
using namespace kvc::random;

static const std::vector<std::string> keyNames{"random", "repeated", "equal"};
static const std::vector<std::string> specialNames{"none", "zeros",
                                                   "infinities", "nans"};
static const std::vector<std::string> dtypeNames{"f32", "f16", "bf16"};

static const std::vector<std::string> cacheNames{"dense", "ragged", "paged",
                                                 "merged"};

static kvc_dtype dtypeOf(size_t i) {
  return i == 0 ? KVC_F32 : i == 1 ? KVC_F16 : KVC_BF16;
}

static size_t find(const std::vector<std::string> &names,
                   const std::string &name) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name)
      return i;
  throw rt::fail(KVC_BAD_ARGUMENT, "a case has no '{}'", name);
}

Case Case::parse(const std::string &text) {
  Case result;
  std::stringstream stream(text);
  std::string item;
  bool first = true;
  auto number = [&](const std::string &digits) {
    try {
      return std::stoll(digits);
    } catch (const std::exception &) {
      throw rt::fail(KVC_BAD_ARGUMENT, "a case needs a number, got '{}'", item);
    }
  };
  while (std::getline(stream, item, ',')) {
    size_t equals = std::min(item.find('='), item.size() - 1);
    std::string name = item.substr(0, equals), value = item.substr(equals + 1);
    if (name == "kv")
      result.shape.kvHeads = number(value);
    else if (name == "group")
      result.shape.group = number(value);
    else if (name == "head_dim")
      result.shape.headDim = number(value);
    else if (name == "dtype")
      result.shape.dtype = dtypeOf(find(dtypeNames, value));
    else if (name == "keys")
      result.keys = test::Keys(find(keyNames, value));
    else if (name == "special")
      result.special = test::Special(find(specialNames, value));
    else if (name == "cache")
      result.cache = kvc_cache_kind(find(cacheNames, value));
    else if (name == "into")
      result.into = kvc_cache_kind(find(cacheNames, value));
    else if (name == "place")
      result.place = uint32_t(number(value));
    else if (name == "layers")
      result.layers = number(value);
    else if (name == "data")
      result.data = uint64_t(number(value));
    else if (name == "seq") {
      size_t colon = std::min(value.find(':'), value.size());
      if (std::exchange(first, false))
        result.sequences.clear();
      result.sequences.emplace_back(
          number(value.substr(0, colon)),
          number(value.substr(std::min(colon + 1, value.size()))));
    } else
      throw rt::fail(KVC_BAD_ARGUMENT, "a case has no '{}'", item);
  }
  return result;
}

std::string Case::text() const {
  std::string result = rt::formatted(
      "kv={},group={},head_dim={},dtype={},keys={},special={},layers={},"
      "{}{}data={}",
      shape.kvHeads, shape.group, shape.headDim,
      dtypeNames[shape.dtype == KVC_F32   ? 0
                 : shape.dtype == KVC_F16 ? 1
                                          : 2],
      keyNames[size_t(keys)], specialNames[size_t(special)], layers,
      cache == KVC_DENSE ? "" : "cache=" + cacheNames[cache] + ",",
      into == KVC_DENSE
          ? ""
          : rt::formatted("into={},place={},", cacheNames[into], place),
      data);
  for (auto [tokens, budget] : sequences)
    result += rt::formatted(",seq={}:{}", tokens, budget);
  return result;
}

Case kvc::random::makeCase(uint64_t seed) {
  Random random(mix(seed) ^ 0xca5e);
  Case c;
  c.shape.kvHeads = random.of<int64_t>({1, 1, 2, 2, 2, 3, 4});
  c.shape.group =
      random.chance(8) ? random.of<int64_t>({8, 13, 16}) : random.between(1, 7);
  // The most common sizes are small: they show as much, in less time.
  c.shape.headDim = random.chance(70)
                        ? random.of<int64_t>({8, 16, 16, 32, 32, 64})
                    : random.chance(70)
                        ? random.of<int64_t>({20, 24, 48, 80, 96, 128})
                        : random.of<int64_t>({1, 2, 7, 10, 33, 192, 250, 256});
  while (c.shape.kvHeads * c.shape.group * c.shape.headDim > 512) {
    c.shape.kvHeads = std::max<int64_t>(1, c.shape.kvHeads / 2);
    c.shape.group = std::max<int64_t>(1, c.shape.group / 2);
    if (c.shape.kvHeads * c.shape.group == 1)
      break;
  }
  c.shape.dtype = dtypeOf(random.weighted({50, 25, 25}));
  // What keeps a large window's rows has heads and groups of large models. Not one of the
  // draws above, so that the other seeds are what they were.
  if (Random wide(seed ^ 0x71DE); wide.chance(6)) {
    c.shape.kvHeads = 1;
    c.shape.group = wide.of<int64_t>({4, 8, 8});
    c.shape.headDim = wide.of<int64_t>({80, 96, 128, 128});
    c.shape.dtype = wide.chance(50) ? KVC_BF16 : KVC_F16;
  }
  c.keys = test::Keys(random.weighted({70, 22, 8}));
  c.special = test::Special(random.weighted({82, 8, 5, 5}));
  c.layers = random.between(2, 3);
  c.data = random.next() % 1000000;
  auto sequence = [&] {
    int64_t tokens = random.chance(12) ? random.between(1, 12)
                     : random.chance(25)
                         ? random.of<int64_t>({32, 33, 64, 65, 96, 128, 129})
                     : random.chance(10) ? random.between(130, 260)
                                         : random.between(20, 110);
    int64_t budget = random.chance(8)    ? tokens + random.between(-1, 2)
                     : random.chance(10) ? random.between(1, 8)
                                         : random.between(1, tokens);
    return std::pair(tokens, std::max<int64_t>(1, budget));
  };
  c.sequences = {sequence()};
  while (c.sequences.size() < 3 && random.chance(30))
    c.sequences.push_back(sequence());
  if (random.chance(20))
    c.cache = random.chance(70) ? KVC_RAGGED : KVC_PAGED;
  if (Random view(seed ^ 0x91ACE); view.chance(40)) {
    c.into = view.chance(50) ? KVC_RAGGED : KVC_PAGED;
    c.place = uint32_t(view.between(0, 255));
  }
  return c;
}

Case kvc::random::fitted(Case c, const std::string &policy) {
  auto reads = [&](const char *what) {
    return policy.find(what) != std::string::npos;
  };
  if (c.cache == KVC_MERGED) { // RoPE turns pairs of channels
    c.shape.headDim += c.shape.headDim % 2;
    return c;
  }
  if (c.cache == KVC_PAGED && reads("raw_key"))
    c.cache = KVC_RAGGED;
  if (reads("kvc.nearest"))
    c.cache = KVC_DENSE;
  return c;
}

//===- CacheCompressor.cpp - a policy over a cache of rows ----------------===//

#include "executor/engine/Engine.h"

#include "runtime/base/Failure.h"

#include <algorithm>

using namespace kvc::rt;

void CacheCompressor::checkInputs() const {
  if (manifest().reads(Argument::k_raw))
    throw fail(KVC_UNSUPPORTED,
               "policy '{}' reads keys before RoPE, which a cache has not",
               manifest().policy);
}

bool CacheCompressor::isForMerged() const {
  const std::vector<Variant> &variants = manifest().variants;
  return std::any_of(variants.begin(), variants.end(),
                     [](const Variant &v) { return v.cache == KVC_MERGED; });
}

void CacheCompressor::checkMerged(bool merged) const {
  if (merged && !isForMerged())
    throw fail(KVC_UNSUPPORTED,
               "policy '{}' cannot evict from a cache of merged rows",
               manifest().policy);
  if (!merged && isForMerged())
    throw fail(KVC_UNSUPPORTED,
               "policy '{}' evicts from caches of merged rows only",
               manifest().policy);
}

uint32_t CacheCompressor::queriesRead(uint32_t length,
                                      uint32_t newTokens) const {
  return std::min(manifest().queriesOf(length, newTokens), length);
}

void CacheCompressor::checkQueries(uint32_t have, uint32_t wanted,
                                   uint32_t length, bool whole) const {
  const Manifest &policy = manifest();
  // What it sums over queries that older rows have met is gone with these rows.
  if (policy.queries == KVC_ALL_QUERIES && wanted == length && !whole)
    throw fail(KVC_UNSUPPORTED,
               "policy '{}' reads the queries of all {} tokens, which goes "
               "only where no row was evicted before",
               policy.policy, length);
  if (have < wanted)
    throw fail(KVC_BAD_ARGUMENT,
               "policy '{}' reads the last {} queries, got {} with the cache",
               policy.policy, wanted, have);
}

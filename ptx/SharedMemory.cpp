//===- SharedMemory.cpp ---------------------------------------------------===//

#include "ptx/SharedMemory.h"

#include "ptx/Types.h"
#include "runtime/base/Failure.h"

#include <algorithm>
#include <cstring>

using namespace kvc::ptx;
using kvc::rt::fail;

SharedMemory::SharedMemory(uint32_t size)
    : bytes(size, std::byte(0xff)), words((size + 3) / 4, Word()) {}

void SharedMemory::check(uint64_t address, uint32_t size) const {
  if (!isMultiple(address, size))
    throw fail(KVC_INTERNAL_ERROR,
               "a shared address must be a multiple of {}, got {}", size,
               address);
  if (address > bytes.size() || size > bytes.size() - address)
    throw fail(KVC_INTERNAL_ERROR,
               "shared memory has {} bytes, got an access of {} at {}",
               bytes.size(), size, address);
}

static bool sameWarp(uint32_t a, uint32_t b) { return a / 32 == b / 32; }

static bool sameTeam(uint32_t a, uint32_t b, uint32_t threads) {
  return !threads || a / threads == b / threads;
}

void SharedMemory::Party::add(const Access &access, uint32_t team) {
  bool ofTeam = sameTeam(last.thread, access.thread, team);
  bool current =
      inInterval(access) && ofTeam && last.teamBarriers == access.teamBarriers;
  bool near = current && sameWarp(last.thread, access.thread);
  otherWarps = current && (otherWarps || !near);
  otherTeams =
      inInterval(access) && (otherTeams || !ofTeam || (!team && otherWarps));
  otherLanes = near && last.syncs == access.syncs &&
               (otherLanes || last.thread != access.thread);
  last = access;
}

bool SharedMemory::Party::races(const Access &access, uint32_t team) const {
  if (!inInterval(access))
    return false;
  if (team && (otherTeams || !sameTeam(last.thread, access.thread, team)))
    return true;
  if (last.teamBarriers != access.teamBarriers)
    return false;
  if (otherWarps || !sameWarp(last.thread, access.thread))
    return true;
  return last.syncs == access.syncs &&
         (otherLanes || last.thread != access.thread);
}

static kvc::rt::Failure race(const char *what, uint64_t word, uint32_t first,
                             uint32_t second) {
  return fail(KVC_INTERNAL_ERROR,
              "race for shared memory at {}: thread {} {} thread {} without a "
              "barrier between them",
              word * 4, second, what, first);
}

const std::byte *SharedMemory::read(uint64_t address, uint32_t size,
                                    Access access) {
  check(address, size);
  for (uint64_t i = address / 4; i <= (address + size - 1) / 4; ++i) {
    Word &word = words[i];
    checkOutside(i, access);
    checkArrived(i, access);
    for (const Party *party : {&word.writers, &word.changers})
      if (party->races(access, team))
        throw race("reads what is written by", i, party->thread(),
                   access.thread);
    word.readers.add(access, team);
  }
  return &bytes[address];
}

void SharedMemory::write(uint64_t address, uint32_t size, const void *value,
                         Access access) {
  check(address, size);
  if (!arrivals.empty())
    for (uint64_t i = address / 4; i <= (address + size - 1) / 4; ++i)
      checkArrived(i, access);
  if (!std::memcmp(&bytes[address], value, size))
    return;
  for (uint64_t i = address / 4; i <= (address + size - 1) / 4; ++i) {
    Word &word = words[i];
    checkOutside(i, access);
    // Threads may write parts of a word of their own.
    for (const Party *party : {&word.writers, &word.changers})
      if (size >= 4 && party->races(access, team))
        throw race("overwrites what is written by", i, party->thread(),
                   access.thread);
    if (word.readers.races(access, team))
      throw race("overwrites what is read by", i, word.readers.thread(),
                 access.thread);
    word.writers.add(access, team);
    wrote(word, access);
  }
  std::memcpy(&bytes[address], value, size);
}

std::byte *SharedMemory::change(uint64_t address, uint32_t size,
                                Access access) {
  check(address, size);
  for (uint64_t i = address / 4; i <= (address + size - 1) / 4; ++i) {
    Word &word = words[i];
    checkOutside(i, access);
    checkArrived(i, access);
    if (word.writers.races(access, team))
      throw race("changes what is written by", i, word.writers.thread(),
                 access.thread);
    if (word.readers.races(access, team))
      throw race("changes what is read by", i, word.readers.thread(),
                 access.thread);
    word.changers.add(access, team);
    wrote(word, access);
  }
  return &bytes[address];
}

void SharedMemory::fence(Access access) {
  if (fences.size() <= access.thread)
    fences.resize(access.thread + 1);
  fences[access.thread].push_back(access.barriers);
}

void SharedMemory::wrote(Word &word, const Access &access) {
  word.arrival = 0;
  word.writer = access.thread;
  word.fences = access.thread < fences.size()
                    ? uint32_t(fences[access.thread].size())
                    : 0;
}

void SharedMemory::checkFenced(uint64_t address, uint32_t size,
                               Access access) const {
  for (uint64_t i = address / 4; i <= (address + size - 1) / 4; ++i) {
    const Word &word = words[i];
    if (word.fences == never)
      continue;
    bool fenced =
        word.writer < fences.size() && word.fences < fences[word.writer].size();
    if (fenced && !sameWarp(word.writer, access.thread))
      fenced = fences[word.writer][word.fences] < access.barriers;
    if (!fenced)
      throw fail(KVC_INTERNAL_ERROR,
                 "shared memory at {} is written by thread {}, which must pass "
                 "fence.proxy.async before the barrier",
                 i * 4, word.writer);
  }
}

const std::byte *SharedMemory::readAsync(uint64_t address, uint32_t size,
                                         Access access) {
  const std::byte *found = read(address, size, access);
  checkFenced(address, size, access);
  return found;
}

uint32_t SharedMemory::newArrival() {
  if (arrivals.empty())
    arrivals.emplace_back();
  arrivals.emplace_back();
  return uint32_t(arrivals.size() - 1);
}

void SharedMemory::saw(uint32_t arrival, Access access) {
  Seen &seen = arrivals[arrival];
  seen.warps |= 1u << access.thread / 32;
  seen.barriers = std::min(seen.barriers, access.barriers);
}

void SharedMemory::checkSeen(uint64_t word, Access access) const {
  const Seen &seen = arrivals[words[word].arrival];
  if (!(seen.warps >> access.thread / 32 & 1) &&
      seen.barriers >= access.barriers)
    throw fail(KVC_INTERNAL_ERROR,
               "shared memory at {} is brought by a bulk copy, for whose "
               "mbarrier thread {} must wait",
               word * 4, access.thread);
}

void SharedMemory::sync(uint64_t address, uint32_t size, Access access) {
  check(address, size);
  for (uint64_t i = address / 4; i <= (address + size - 1) / 4; ++i)
    if (const Party &party = words[i].writers; party.races(access, team))
      throw race("meets others at what is written by", i, party.thread(),
                 access.thread);
}

void SharedMemory::bring(uint64_t address, uint32_t size, const void *value,
                         Access asker, uint32_t arrival) {
  check(address, size);
  checkFenced(address, size, asker);
  for (uint64_t i = address / 4; i <= (address + size - 1) / 4; ++i) {
    Word &word = words[i];
    checkOutside(i, asker);
    checkArrived(i, asker);
    for (const Party *party : {&word.readers, &word.writers, &word.changers})
      if (party->races(asker, team))
        throw race("has a bulk copy overwrite what is used by", i,
                   party->thread(), asker.thread);
    word.fences = never;
    word.arrival = arrival;
  }
  std::memcpy(&bytes[address], value, size);
}

void SharedMemory::passBarrier() {
  ++barriers;
  team = 0;
}

void SharedMemory::passClusterBarrier() {
  passBarrier();
  ++intervals;
  barriersBefore = barriers;
}

void SharedMemory::throwOutside(uint64_t word, Access access) {
  throw fail(KVC_INTERNAL_ERROR,
             "race for shared memory at {}: thread {} uses what another block "
             "writes without a barrier of the cluster between them",
             word * 4, access.thread);
}

void SharedMemory::writeFromOutside(uint64_t address, uint32_t size,
                                    const void *value) {
  check(address, size);
  if (intervals == 1)
    throw fail(KVC_INTERNAL_ERROR,
               "a block that has not met its cluster must not write to the "
               "shared memory of another one, which may not have begun");
  bool changes = std::memcmp(&bytes[address], value, size);
  for (uint64_t i = address / 4; i <= (address + size - 1) / 4; ++i) {
    Word &word = words[i];
    for (const Party *party : {&word.readers, &word.writers, &word.changers})
      if (party->since(barriersBefore))
        throw fail(KVC_INTERNAL_ERROR,
                   "race for shared memory at {}: another block overwrites "
                   "what thread {} uses without a barrier of the cluster "
                   "between them",
                   i * 4, party->thread());
    if (changes && word.outside == intervals)
      throw fail(KVC_INTERNAL_ERROR,
                 "race for shared memory at {}: other blocks write two numbers",
                 i * 4);
    word.outside = intervals;
    // No fence of the block's own shows it to the asynchronous proxy.
    word.writer = ~0u;
    word.fences = 0;
    word.arrival = 0;
  }
  std::memcpy(&bytes[address], value, size);
}

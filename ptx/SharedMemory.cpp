//===- SharedMemory.cpp ---------------------------------------------------===//

#include "ptx/SharedMemory.h"

#include "runtime/base/Failure.h"

#include <cstring>

using namespace kvc::ptx;
using kvc::rt::fail;

SharedMemory::SharedMemory(uint32_t size)
    : bytes(size, std::byte(0xff)), words((size + 3) / 4) {}

void SharedMemory::check(uint64_t address, uint32_t size) const {
  if (address % size)
    throw fail(KVC_INTERNAL_ERROR,
               "a shared address must be a multiple of {}, got {}", size,
               address);
  if (address > bytes.size() || size > bytes.size() - address)
    throw fail(KVC_INTERNAL_ERROR,
               "shared memory has {} bytes, got an access of {} at {}",
               bytes.size(), size, address);
}

bool SharedMemory::ordered(const Access &first, const Access &second) const {
  if (first.thread == none || first.thread == second.thread ||
      first.barriers != second.barriers)
    return true;
  return first.thread / 32 == second.thread / 32 && first.syncs != second.syncs;
}

static kvc::rt::Failure race(const char *what, uint64_t address,
                             const Access &first, const Access &second) {
  return fail(KVC_INTERNAL_ERROR,
              "race for shared memory at {}: thread {} {} thread {} without a "
              "barrier between them",
              address, second.thread, what, first.thread);
}

const std::byte *SharedMemory::read(uint64_t address, uint32_t size,
                                    Access access) {
  check(address, size);
  for (uint64_t i = address / 4; i <= (address + size - 1) / 4; ++i) {
    Word &word = words[i];
    if (!ordered(word.writer, access))
      throw race("reads what is written by", i * 4, word.writer, access);
    // Of several readers the one that a writer is ordered behind least is kept.
    if (word.reader.barriers != access.barriers)
      word.severalReaders = false;
    else if (word.reader.thread / 32 != access.thread / 32)
      word.severalReaders |= word.reader.thread != none;
    word.reader = access;
  }
  return &bytes[address];
}

void SharedMemory::write(uint64_t address, uint32_t size, const void *value,
                         Access access) {
  check(address, size);
  if (!std::memcmp(&bytes[address], value, size))
    return;
  for (uint64_t i = address / 4; i <= (address + size - 1) / 4; ++i) {
    Word &word = words[i];
    // Threads may write parts of a word of their own.
    if (size >= 4 && !ordered(word.writer, access))
      throw race("overwrites what is written by", i * 4, word.writer, access);
    if (!ordered(word.reader, access) ||
        (word.severalReaders && word.reader.barriers == access.barriers))
      throw race("overwrites what is read by", i * 4, word.reader, access);
    word.writer = access;
    word.atomic = false;
  }
  std::memcpy(&bytes[address], value, size);
}

std::byte *SharedMemory::change(uint64_t address, uint32_t size,
                                Access access) {
  check(address, size);
  for (uint64_t i = address / 4; i <= (address + size - 1) / 4; ++i) {
    Word &word = words[i];
    if (!word.atomic && !ordered(word.writer, access))
      throw race("changes what is written by", i * 4, word.writer, access);
    if (!ordered(word.reader, access))
      throw race("changes what is read by", i * 4, word.reader, access);
    word.writer = access;
    word.atomic = true;
  }
  return &bytes[address];
}

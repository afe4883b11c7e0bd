//===- CacheView.h - a view of the C ABI, checked -------------------------===//

#ifndef KVC_RUNTIME_CACHE_CACHEVIEW_H
#define KVC_RUNTIME_CACHE_CACHEVIEW_H

#include "kvc/cache.h"

#include <cstddef>
#include <initializer_list>
#include <optional>

namespace kvc::rt {

/// What a plan's kind of cache asks of the view.
constexpr bool plansPages(kvc_cache_kind planned) {
  return planned == KVC_PAGED || planned == KVC_MERGED_PAGED;
}
constexpr bool plansMembers(kvc_cache_kind planned) {
  return planned == KVC_MERGED || planned == KVC_MERGED_PAGED;
}

/// Where the rows of one head lie, of keys, of values or of numbers.
class HeadPlane {
public:
  HeadPlane() = default;
  HeadPlane(std::byte *base, int64_t rowBytes, int64_t first)
      : base(base), rowBytes(rowBytes), first(first) {}
  /// In pages of `pageRows`, a power of two.
  HeadPlane(std::byte *base, int64_t rowBytes, int64_t first,
            const int32_t *table, int64_t pageBytes, uint32_t pageRows)
      : base(base), rowBytes(rowBytes), first(first), table(table),
        pageBytes(pageBytes), shift(uint32_t(__builtin_ctz(pageRows))) {}

  explicit operator bool() const { return base; }
  /// The place of a row.
  std::byte *operator[](uint32_t row) const {
    int64_t slot = first + row;
    if (!table)
      return base + slot * rowBytes;
    int64_t page = slot >> shift;
    return base + table[page] * pageBytes + (slot - (page << shift)) * rowBytes;
  }

private:
  std::byte *base = nullptr;
  int64_t rowBytes = 0, first = 0;
  const int32_t *table = nullptr;
  int64_t pageBytes = 0;
  uint32_t shift = 0;
};

/// The number of a sequence and head, or the first of a list.
inline int32_t *placeOf(const kvc_numbers &numbers, uint32_t sequence,
                        uint32_t head) {
  return numbers.data + sequence * numbers.batch_stride +
         head * numbers.head_stride;
}

/// Slots that an offset may lie among.
uint64_t slotsOf(const kvc_cache_view &view);
/// True where heads of a sequence lie in the same slots' memory, one behind the other.
bool headsMeet(const kvc_cache_view &view);
/// The same of sequences.
bool sequencesMeet(const kvc_cache_view &view);

class CacheView {
public:
  /// Copies the structs. Throws Failure where a number or a pointer is wrong; reads
  /// none of the arrays. `name`: of the view in messages. Of a view that only says where
  /// rows go, counts and lengths are not asked for.
  explicit CacheView(const kvc_cache_view *view, const char *name = "cache",
                     bool hasRows = true);

  const kvc_cache_view &fields() const { return view; }
  /// As messages have it.
  const char *title() const { return name; }
  /// Of merged rows, else null.
  const kvc_member_table *members() const { return table ? &*table : nullptr; }
  /// Rows that a head has room for at most; of merged rows, members.
  uint64_t mostKeys() const;

  int32_t count(uint32_t sequence, uint32_t head) const;
  void setCount(uint32_t sequence, uint32_t head, int32_t value) const;
  /// T
  int32_t length(uint32_t sequence) const;
  /// Entries in front of a head's list of members.
  size_t membersAt(uint32_t sequence, uint32_t head) const;
  /// Entries of the list.
  int32_t &memberCount(uint32_t sequence, uint32_t head) const;

  HeadPlane keys(uint32_t sequence, uint32_t head) const;
  HeadPlane values(uint32_t sequence, uint32_t head) const;
  /// Of int32; none where a row's position is its number.
  HeadPlane positions(uint32_t sequence, uint32_t head) const;

  /// The arrays, as far as reading all rows needs them: throws Failure where a count
  /// or a table leads out of the memory, positions do not ascend, or a member has no
  /// row.
  void checkRows() const;
  /// That the members of a head are in ascending order of position, each below `end`;
  /// they have been checked as rows' members.
  void checkMemberOrder(uint32_t end) const;
  /// What writing rows behind those of every head needs of the numbers; reads none of
  /// the arrays.
  void checkWritable() const;
  /// The same, and of the arrays, for `rows` rows.
  void checkRoom(uint32_t rows) const;
  /// Throws where rows that are written would overlap by the view's strides.
  void checkApart() const;
  /// That heads begin in one of the slots, or behind the last.
  void checkStarts() const;
  /// As far as writing over the rows that are there needs them: a slot or a page of
  /// theirs is nobody else's. The arrays have been checked.
  void checkOwnRows() const;

private:
  kvc_cache_view view;
  const char *name;
  std::optional<kvc_member_table> table;

  bool paged() const { return view.kind == KVC_PAGED; }
  HeadPlane plane(const kvc_plane &plane, const kvc_numbers &pages,
                  size_t elementBytes, uint32_t sequence, uint32_t head) const;
  int32_t offset(uint32_t sequence, uint32_t head) const;
  uint64_t slots() const { return slotsOf(view); }
  /// The first slot behind those that a head may fill.
  int64_t endOfSlots(uint32_t sequence, uint32_t head) const;

  // CacheChecks.cpp
  void checkShape() const;
  void checkPointers(bool hasRows) const;
  void checkAligned(const void *data, size_t bytes, const char *field) const;
  /// Of a head's first rows.
  void checkPages(uint32_t sequence, uint32_t head, int64_t rows) const;
  void checkPages(const kvc_numbers &pages, const char *name, uint32_t sequence,
                  uint32_t head, int64_t from, int64_t to) const;
  /// That no page is twice among entries [from, to) of a head's list.
  void checkListOnce(const kvc_numbers &pages, const char *name,
                     uint32_t sequence, uint32_t head, int64_t from,
                     int64_t to) const;
  void checkPositions(uint32_t sequence, uint32_t head) const;
  void checkMembers(uint32_t sequence, uint32_t head) const;
  void checkSharedCounts() const;
  void checkSharedPositions() const;
  void present(const void *pointer, const char *field) const;
  void checkRoom(uint32_t sequence, uint32_t head, uint32_t rows) const;

  // WrittenPages.cpp
  void checkOwnPages() const;
  void checkWrittenPages(uint32_t newRows) const;
  using Tables = std::initializer_list<const kvc_numbers *>;
  /// Calls check(tables) for each pool of pages, with the tables whose entries are
  /// numbers of its pages.
  template <typename Check> void eachPool(Check check) const;
  void checkPool(uint32_t newRows, Tables tables) const;
  template <typename Takes> void checkOnce(Tables tables, Takes takes) const;
  /// The entries whose pages hold rows, and those that `newRows` more would need, which
  /// are said to be written; without a number all are.
  template <typename Visit>
  void visitEntries(std::optional<uint32_t> newRows, const kvc_numbers &pages,
                    Visit visit) const;
};

} // namespace kvc::rt

#endif // KVC_RUNTIME_CACHE_CACHEVIEW_H

//===- Bpe.cpp - byte pair encoding of a word -----------------------------===//

#include "executor/model/Bpe.h"

#include "runtime/base/Failure.h"
#include "executor/model/Utf8.h"

#include <queue>
#include <utility>

using namespace kvc::rt;

static uint64_t pairOf(uint32_t left, uint32_t right) {
  return uint64_t(left) << 32 | right;
}

bool Bpe::addMerge(const std::string &left, const std::string &right,
                   uint32_t rank) {
  auto a = vocab.find(left), b = vocab.find(right),
       c = vocab.find(left + right);
  if (a == vocab.end() || b == vocab.end() || c == vocab.end())
    return false;
  merges.try_emplace(pairOf(a->second, b->second), Merge{rank, c->second});
  return true;
}

/// The tokens to start from: one per character, or per byte of one.
std::vector<uint32_t> Bpe::characters(const std::string &word) const {
  std::vector<uint32_t> tokens;
  bool afterUnknown = false;
  for (size_t i = 0, length; i < word.size(); i += length) {
    length = utf8Length(word, i);
    std::string character = word.substr(i, length);
    bool wasUnknown = std::exchange(afterUnknown, false);
    if (auto it = vocab.find(character); it != vocab.end()) {
      tokens.push_back(it->second);
      continue;
    }
    std::vector<uint32_t> bytes;
    for (char c : character)
      if (auto it = vocab.find(formatted("<0x{:02X}>", uint8_t(c)));
          byteFallback && it != vocab.end())
        bytes.push_back(it->second);
    if (bytes.size() == length) {
      tokens.insert(tokens.end(), bytes.begin(), bytes.end());
      continue;
    }
    if (!unknown)
      throw fail(KVC_BAD_ARGUMENT,
                 "tokenizer: '{}' must be in the vocabulary or have an unknown "
                 "token",
                 character);
    afterUnknown = true;
    if (!wasUnknown || !fuseUnknown)
      tokens.push_back(*unknown);
  }
  return tokens;
}

void Bpe::encode(const std::string &word, std::vector<uint32_t> &out) const {
  if (word.empty())
    return;
  if (ignoreMerges)
    if (auto whole = vocab.find(word); whole != vocab.end()) {
      out.push_back(whole->second);
      return;
    }
  // A list of symbols in which neighbours are joined.
  struct Symbol {
    uint32_t token;
    int previous, next;
  };
  std::vector<Symbol> symbols;
  for (uint32_t token : characters(word))
    symbols.push_back(
        {token, int(symbols.size()) - 1, int(symbols.size()) + 1});
  symbols.back().next = -1;
  struct Candidate {
    uint32_t rank;
    int left;
    uint32_t leftToken, rightToken, joined;
    bool operator<(const Candidate &o) const {
      return rank != o.rank ? rank > o.rank : left > o.left;
    }
  };
  std::priority_queue<Candidate> queue;
  auto consider = [&](int left) {
    if (left < 0 || symbols[left].next < 0)
      return;
    uint32_t a = symbols[left].token, b = symbols[symbols[left].next].token;
    if (auto it = merges.find(pairOf(a, b)); it != merges.end())
      queue.push({it->second.rank, left, a, b, it->second.token});
  };
  for (int i = 0; i < int(symbols.size()); ++i)
    consider(i);
  constexpr uint32_t dead = UINT32_MAX;
  while (!queue.empty()) {
    Candidate best = queue.top();
    queue.pop();
    Symbol &left = symbols[best.left];
    if (left.token != best.leftToken || left.next < 0 ||
        symbols[left.next].token != best.rightToken)
      continue; // one of the two has been joined meanwhile
    Symbol &right = symbols[left.next];
    left.token = best.joined;
    right.token = dead;
    left.next = right.next;
    if (right.next >= 0)
      symbols[right.next].previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
  for (int i = 0; i >= 0; i = symbols[i].next)
    out.push_back(symbols[i].token);
}

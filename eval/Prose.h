//===- Prose.h - made-up English, from a seed -----------------------------===//

#ifndef KVC_EVAL_PROSE_H
#define KVC_EVAL_PROSE_H

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace kvc::rt {

/// The same numbers with every standard library.
class Dice {
public:
  explicit Dice(uint64_t seed) : engine(seed) {}
  /// 0 to n - 1.
  uint64_t below(uint64_t n) { return engine() % n; }
  template <typename T> const T &pick(const std::vector<T> &from) {
    return from[below(from.size())];
  }
  /// `count` different items.
  template <typename T>
  std::vector<T> sample(std::vector<T> from, size_t count) {
    for (size_t i = 0; i < count; ++i)
      std::swap(from[i], from[i + below(from.size() - i)]);
    from.resize(count);
    return from;
  }

private:
  std::mt19937_64 engine;
};

/// A sentence, full stop included.
std::string sentence(Dice &dice);
/// Words that sentences do not use: keys of needles.
const std::vector<std::string> &keyWords();
/// Pronounceable words of no language.
std::string madeUpWord(Dice &dice, size_t syllables);
/// The same with a capital.
std::string madeUpName(Dice &dice, size_t syllables);
const std::vector<std::string> &firstNames();
const std::vector<std::string> &trades();

} // namespace kvc::rt

#endif // KVC_EVAL_PROSE_H

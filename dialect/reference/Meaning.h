//===- Meaning.h - what each op computes, plainly, in double --------------===//
//
// The first judge: no code of passes or codegen, no fusion, no order tricks.
// Everything is stored, everything is double.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_DIALECT_REFERENCE_MEANING_H
#define KVC_DIALECT_REFERENCE_MEANING_H

#include "dialect/KVCAxes.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kvc::reference {

/// One sequence of one layer, and what the policy is given for it.
struct Layer {
  int64_t qHeads, kvHeads, headDim;
  int64_t tokens;  // T
  int64_t queries; // rows per head in q, the last ones
  int64_t budget;  // B
  int64_t layer = 0, layers = 1;
  double scale;
  std::vector<double> q;          // [Hq, queries, d]
  std::vector<double> k;          // [Hkv, T, d]
  std::vector<double> v;          // [Hkv, T, d]
  std::vector<double> kRaw;       // [Hkv, T, d], keys before RoPE
  int64_t hidden = 0;             // D
  std::vector<double> wo;         // [D, Hq * d], the output projection
  std::vector<double> keptLayers; // [T], earlier layers that kept the token
  std::vector<double> table;      // [layers, Hq], importance
  /// Queries that no earlier run has had; T where nobody says.
  std::optional<int64_t> newQueries;
  /// By name what rows carry so far, [Hkv, T]; 0 for names that are not here.
  std::map<std::string, std::vector<double>> rowStates;
  /// Tokens that earlier runs have had behind the prompt.
  int64_t since = 0;
  /// What the rows of a merged cache represent, [Hkv][T] by a member's own position:
  /// the token of its row, or -1, and the norm of its key. kRaw has the rows' keys.
  struct Members {
    std::vector<std::vector<int64_t>> rows;
    std::vector<std::vector<double>> norms;
  };
  /// None: each row is its only member.
  std::optional<Members> members;
  std::vector<double> angles; // [T, d / 2, 2], cosine and sine
  /// Rounds what is stored in the model's type.
  std::function<double(double)> narrow;
  /// [Hkv][T] of a cache of rows: the tokens that a head has a row of; empty: all.
  /// What k, v and kRaw have in the place of others is nobody's.
  std::vector<std::vector<bool>> rows;

  bool hasRow(int64_t kvHead, int64_t token) const {
    return rows.empty() || rows[kvHead][token];
  }
  /// The head's rows in front of position `end`.
  int64_t countRows(int64_t kvHead, int64_t end) const;
  /// Rounds a softmax weight of row `head * queries + query` to the model's type.
  std::function<double(double weight, int64_t row)> round;
};

/// One element. An integer has both: its double is exact up to 2^53 only, which an
/// index may leave (a difference below 0, shifted down again as an unsigned number).
struct Number {
  double real = 0;
  int64_t whole = 0;

  static Number ofReal(double x) { return {x, 0}; }
  static Number ofWhole(int64_t x) { return {double(x), x}; }
};

/// A value: extents as its axes have them, row-major. Masks are 0 and 1.
struct Tensor {
  AxisList axes; // empty: a scalar
  std::vector<int64_t> shape;
  std::vector<double> data;
  int64_t whole = 0; // a scalar integer, exact

  int64_t heads() const { return shape.empty() ? 1 : shape[0]; }
  /// Elements behind one head.
  int64_t perHead() const;
};

// Values of tokens that a head has no row of are 0.

/// A[h, i, t] of the last `queries` queries and the first `past` tokens.
Tensor attention(const Layer &layer, int64_t queries, int64_t past,
                 bool rounded);
/// The scaled logits of the last `queries` queries, without a mask.
Tensor logits(const Layer &layer, int64_t queries, int64_t past);
/// A value per member, [Hkv, T], reduced over those of each row.
Tensor reduceMembers(const Layer &layer, const Tensor &value, int64_t past,
                     ReduceKind kind);
/// ||row|| of keys or values; l1 or l2.
Tensor norm(const Layer &layer, const std::vector<double> &rows, int64_t past,
            bool l2);
/// ||v . Wo_h|| of each query head; l1 or l2.
Tensor projectedNorm(const Layer &layer, int64_t past, bool l2);
/// X[g, c, t] of keys or values.
Tensor vectors(const Layer &layer, const std::vector<double> &rows,
               int64_t past);
/// The smallest number of best scores of each head that leave at most `rest`.
std::vector<int64_t> countMass(const Tensor &score, double rest);
/// 0, 1, ... past - 1 for one head; with `tokens` counted from the end of
/// those.
Tensor position(int64_t past, int64_t tokens = 0);
/// How many rows of each KV head lie in front of each token's, or with `fromEnd`
/// behind it.
Tensor rowNumbers(const Layer &layer, int64_t past, bool fromEnd);

/// What an op makes of each head's tokens that `marks` marks ([Hkv][past]), as if
/// there were no others: `op` has one head and these tokens. Values of the others
/// are 0.
Tensor ofMarked(const Tensor &value,
                const std::vector<std::vector<bool>> &marks,
                llvm::function_ref<Tensor(const Tensor &, int64_t head)> op);

/// Reduces dimension `dim`; NaN propagates.
Tensor reduce(const Tensor &value, size_t dim, ReduceKind kind);
/// Query heads to KV heads.
Tensor reduceGroup(const Tensor &value, int64_t kvHeads, ReduceKind kind);
/// Any heads to one.
Tensor reduceHeads(const Tensor &value, ReduceKind kind);
/// The same where a token counts in the KV heads that mark it, `marks` [Hkv][past]:
/// the others add nothing to it; a mean is over all heads all the same.
Tensor reduceHeads(const Tensor &value, ReduceKind kind,
                   const std::vector<std::vector<bool>> &marks);
/// Neighbours up to width / 2 away.
Tensor pool(const Tensor &value, int64_t width, bool max, bool countPadding);
/// Each token of the last dimension against its segment, or the next one:
/// [0, from), then `length` tokens each.
Tensor segment(const Tensor &value, SegmentKind kind, int64_t length,
               int64_t from, bool next);
/// Repeats heads and leading or trailing axes to the given shape.
Tensor broadcast(const Tensor &value, const AxisList &axes,
                 const std::vector<int64_t> &shape);
/// The same, to the shape of another tensor; one row of a window stands for every row.
Tensor broadcastLike(const Tensor &value, const Tensor &like);
/// Shares of one layer of `layers`: a line from the first to the last, which
/// gets share * denominator / numerator; largest remainder over the layers.
int64_t allocateLayers(int64_t share, int64_t past, int64_t layer,
                       int64_t layers, int64_t numerator, int64_t denominator);
/// (1 - s) * f + s * base, s = numerator / denominator, f the heads' entries among the
/// sum(base) best scores that `marks` marks, [Hkv][past]. A head gets no more than it
/// has there, and what is over goes to the others in proportion; rounded once by largest
/// remainder.
std::vector<int64_t> allocateHeads(const Tensor &score,
                                   const std::vector<int64_t> &base,
                                   int64_t numerator, int64_t denominator,
                                   const std::vector<std::vector<bool>> &marks);
/// Tokens of each KV head of the running layer: `base` each, `shared` more on
/// average by the table; none above `past`.
std::vector<int64_t> allocateTable(const Layer &layer, int64_t base,
                                   int64_t shared, int64_t past);
/// R[i, j]: the cosine of two tokens' rows, or the product of two sides'
/// cosines, -1 where both are negative. `sides` are of the layer.
double similarity(const Layer &layer,
                  const std::vector<const std::vector<double> *> &sides,
                  int64_t head, int64_t i, int64_t j);
/// The most similar marked centre of each marked source, -1 below `least` and
/// for other tokens.
Tensor nearest(const Layer &layer,
               const std::vector<const std::vector<double> *> &sides,
               const Tensor &sources, const Tensor &centres, double least);
/// Marks the `count` lowest or highest values; NaN only if all are marked.
Tensor selectHeads(const Tensor &value, int64_t count, bool lowest);
/// Marks the counts[g] largest of each head: ties to the smaller token, NaN
/// below everything.
Tensor topk(const Tensor &score, const std::vector<int64_t> &counts);

} // namespace kvc::reference

#endif // KVC_DIALECT_REFERENCE_MEANING_H

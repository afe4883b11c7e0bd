//===- Children.h - trials in processes of their own ----------------------===//

#ifndef KVC_TEST_RANDOM_CHILDREN_H
#define KVC_TEST_RANDOM_CHILDREN_H

#include "test/random/Trial.h"

#include <memory>

namespace kvc::random {

/// Runs trials in forked children, `jobs` at once: a crash is a verdict
/// ("crash"), and so is a trial that takes longer than it may ("hang").
class Children {
public:
  struct Task {
    uint64_t seed;
    std::string policy;
    Case c;
  };

  Children(const TrialOptions &options, unsigned jobs, double seconds);
  ~Children();

  /// Calls `next` for a task (false: there is no more) and `done` with what
  /// came of it, in any order.
  void run(const std::function<bool(Task &)> &next,
           const std::function<void(const Task &, const Verdict &)> &done);
  /// One trial.
  Verdict run(const std::string &policy, const Case &c);

private:
  struct Child;
  TrialOptions options;
  unsigned jobs;
  double seconds;

  std::unique_ptr<Child> start(Task task);
};

} // namespace kvc::random

#endif // KVC_TEST_RANDOM_CHILDREN_H

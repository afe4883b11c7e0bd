//===- Target.h - a reader of bytes that nobody vouches for --------------===//
//
// A target hands bytes to the readers as a user's file would reach them. Readers
// may refuse with a Failure of one line; all else, another exception included,
// ends the process and so is a finding.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_TEST_FUZZ_TARGET_H
#define KVC_TEST_FUZZ_TARGET_H

#include <string>
#include <string_view>

namespace kvc::fuzz {

using Body = void (*)(std::string_view bytes);

struct Target {
  Target(const char *name, Body body);
  const char *const name;
  const Body body;
};

/// Null where there is none of that name.
const Target *findTarget(std::string_view name);

/// Runs the target: a Failure of one line is an answer.
void run(const Target &target, std::string_view bytes);

/// Ends the process with a word.
[[noreturn]] void fault(const std::string &what);

/// Path of a file of this process with the bytes, in a folder of its own that
/// is removed in the end.
std::string file(std::string_view bytes, const std::string &name);
/// That folder.
const std::string &folder();
/// A folder beside it with copies of the fixture's files.
std::string copyOf(const std::string &fixture);

} // namespace kvc::fuzz

/// KVC_FUZZ_TARGET(name) { ... of bytes ... }
#define KVC_FUZZ_TARGET(name)                                                  \
  static void name(std::string_view bytes);                                    \
  static const kvc::fuzz::Target target_##name(#name, name);                   \
  static void name(std::string_view bytes)

#endif // KVC_TEST_FUZZ_TARGET_H

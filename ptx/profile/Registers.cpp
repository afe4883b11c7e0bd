//===- Registers.cpp ------------------------------------------------------===//

#include "ptx/profile/Registers.h"

#include "runtime/base/Failure.h"

#include <charconv>
#include <cstdio>
#include <fcntl.h>
#include <memory>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kvc::ptx;
using kvc::rt::fail;

extern char **environ;

namespace {

using File = std::unique_ptr<std::FILE, decltype(&std::fclose)>;

/// The number in front of `what`, "Used 40 registers".
std::optional<uint32_t> numberBefore(std::string_view line,
                                     std::string_view what) {
  size_t end = line.find(what);
  if (end == std::string_view::npos)
    return std::nullopt;
  size_t begin = end;
  while (begin && line[begin - 1] >= '0' && line[begin - 1] <= '9')
    --begin;
  uint32_t value = 0;
  if (std::from_chars(line.data() + begin, line.data() + end, value).ec !=
      std::errc())
    return std::nullopt;
  return value;
}

} // namespace

std::map<std::string, Assembled>
kvc::ptx::readAssembled(const std::string &printed) {
  std::map<std::string, Assembled> found;
  Assembled *current = nullptr;
  for (std::string_view rest = printed; !rest.empty();) {
    size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    constexpr std::string_view entry = "entry function '";
    if (size_t at = line.find(entry); at != std::string_view::npos) {
      std::string_view name = line.substr(at + entry.size());
      current = &found[std::string(name.substr(0, name.find('\'')))];
    }
    if (!current)
      continue;
    if (auto spilled = numberBefore(line, " bytes spill stores"))
      current->spilledBytes = *spilled;
    if (auto registers = numberBefore(line, " registers"))
      current->registers = *registers;
  }
  return found;
}

std::map<std::string, Assembled> kvc::ptx::assemble(std::string_view ptx,
                                                    const std::string &chip) {
  // Both files have no name: nothing is left behind, whatever happens.
  File program(std::tmpfile(), std::fclose),
      printed(std::tmpfile(), std::fclose);
  if (!program || !printed ||
      std::fwrite(ptx.data(), 1, ptx.size(), program.get()) != ptx.size() ||
      std::fflush(program.get()))
    throw fail(KVC_INTERNAL_ERROR, "cannot write a temporary file for ptxas");
  int out = fileno(printed.get());
  std::string input = kvc::rt::formatted("/dev/fd/{}", fileno(program.get()));
  std::string arch = "-arch=" + chip;
  const char *arguments[] = {"ptxas", "-v",        arch.c_str(), input.c_str(),
                             "-o",    "/dev/null", nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
  pid_t child = 0;
  int error = posix_spawnp(&child, "ptxas", &actions, nullptr,
                           const_cast<char *const *>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error)
    return {};
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  std::string text;
  std::rewind(printed.get());
  char buffer[4096];
  for (size_t read;
       (read = std::fread(buffer, 1, sizeof buffer, printed.get())) > 0;)
    text.append(buffer, read);
  if (!WIFEXITED(status) || WEXITSTATUS(status))
    throw fail(KVC_BAD_ARTIFACT, "ptxas refuses the PTX for {}: {}", chip,
               rt::excerpt(text.substr(0, text.find('\n'))));
  return readAssembled(text);
}

//===- Target.cpp - a reader of bytes that nobody vouches for ------------===//

#include "test/fuzz/Target.h"

#include "runtime/base/Failure.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include <unistd.h>

using namespace kvc;
namespace fs = std::filesystem;

static std::map<std::string_view, const fuzz::Target *> &targets() {
  static std::map<std::string_view, const fuzz::Target *> all;
  return all;
}

fuzz::Target::Target(const char *name, Body body) : name(name), body(body) {
  targets()[name] = this;
}

const fuzz::Target *fuzz::findTarget(std::string_view name) {
  auto it = targets().find(name);
  return it == targets().end() ? nullptr : it->second;
}

void fuzz::fault(const std::string &what) {
  std::fprintf(stderr, "fault: %s\n", what.c_str());
  std::abort();
}

void fuzz::run(const Target &target, std::string_view bytes) {
  try {
    target.body(bytes);
  } catch (const rt::Failure &failure) {
    std::string text = failure.what();
    if (text.empty() || text != rt::oneLine(text))
      fault("an error must be one line, got '" + text + "'");
  }
}

namespace {

/// A folder for as long as the process lives.
struct Folder {
  Folder() {
    std::string pattern =
        (fs::temp_directory_path() / "kvc-fuzz-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      fuzz::fault("cannot make " + pattern);
    path = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string path;
};

} // namespace

const std::string &fuzz::folder() {
  static Folder folder;
  return folder.path;
}

std::string fuzz::file(std::string_view bytes, const std::string &name) {
  std::string path = name.starts_with('/') ? name : folder() + "/" + name;
  std::ofstream stream(path, std::ios::binary);
  stream.write(bytes.data(), std::streamsize(bytes.size()));
  stream.close();
  if (!stream)
    fault("cannot write " + path);
  return path;
}

std::string fuzz::copyOf(const std::string &fixture) {
  std::string copy = folder() + "/" + fs::path(fixture).filename().string();
  fs::copy(fixture, copy,
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  return copy;
}

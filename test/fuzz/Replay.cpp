//===- Replay.cpp - stored inputs through a target -----------------------===//
//
//   fuzz_replay TARGET FILE|FOLDER...
//
// What was ever found stays found, in every build and without libFuzzer.
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Target.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace kvc;
namespace fs = std::filesystem;

static void replay(const fuzz::Target &target, const fs::path &path) {
  // A process that dies has told by what.
  std::printf("%s\n", path.c_str());
  std::fflush(stdout);
  std::ifstream stream(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  fuzz::run(target, bytes);
}

int main(int argc, char **argv) {
  const fuzz::Target *target = argc > 2 ? fuzz::findTarget(argv[1]) : nullptr;
  if (!target) {
    std::fprintf(stderr, "usage: fuzz_replay TARGET FILE|FOLDER...\n");
    return 2;
  }
  size_t count = 0;
  for (int i = 2; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      replay(*target, argv[i]);
      ++count;
      continue;
    }
    for (const auto &entry : fs::directory_iterator(argv[i])) {
      replay(*target, entry.path());
      ++count;
    }
  }
  if (count == 0)
    fuzz::fault("there is no input");
}

//===- PolicyTests.h - a program that tests policies, one test a file -----===//

#ifndef KVC_TEST_MATRIX_POLICYTESTS_H
#define KVC_TEST_MATRIX_POLICYTESTS_H

#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <string>

namespace kvc::test {

/// The compiler under test, and a folder for what it makes.
inline std::string compiler, workDir;

/// The name of a policy's file, which is its test's.
inline std::string stemOf(const std::string &file) {
  return std::filesystem::path(file).stem().string();
}

/// `main` of a program with the arguments KVC_OPT WORK_DIR POLICY.mlir...: makes a
/// Test of each file, named `suite`.FILE.
template <typename Test>
int runPolicyTests(int argc, char **argv, const char *suite) {
  testing::InitGoogleTest(&argc, argv);
  if (argc < 4) {
    std::cerr << "usage: " << argv[0] << " KVC_OPT WORK_DIR POLICY.mlir...\n";
    return 2;
  }
  compiler = argv[1];
  workDir = argv[2];
  std::filesystem::create_directories(workDir);
  for (int i = 3; i < argc; ++i) {
    std::string file = argv[i];
    testing::RegisterTest(
        suite, stemOf(file).c_str(), nullptr, nullptr, file.c_str(), 0,
        [file]() -> testing::Test * { return new Test(file); });
  }
  return RUN_ALL_TESTS();
}

} // namespace kvc::test

#endif // KVC_TEST_MATRIX_POLICYTESTS_H

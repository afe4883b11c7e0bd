// Threads that are kept from grid to grid.

#include "emulator/Workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using kvc::rt::runBeside;

namespace {

/// The threads of a run; all of them are in it at once.
std::set<std::thread::id> threadsOf(unsigned others) {
  std::set<std::thread::id> ids;
  std::mutex mutex;
  std::barrier all(others + 1);
  runBeside(others, [&] {
    {
      std::lock_guard lock(mutex);
      ids.insert(std::this_thread::get_id());
    }
    all.arrive_and_wait();
  });
  return ids;
}

} // namespace

TEST(Workers, Alone) {
  std::set<std::thread::id> ids = threadsOf(0);
  EXPECT_EQ(ids, std::set{std::this_thread::get_id()});
}

TEST(Workers, AreKept) {
  std::set<std::thread::id> first = threadsOf(3), again = threadsOf(3);
  EXPECT_EQ(first.size(), 4u);
  EXPECT_EQ(first, again);
}

TEST(Workers, OfSeveralCallers) {
  std::atomic<int> runs{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      for (int j = 0; j < 200; ++j)
        runBeside(2, [&] { ++runs; });
    });
  for (std::thread &caller : callers)
    caller.join();
  EXPECT_GE(runs, 4 * 200);
  EXPECT_LE(runs, 4 * 200 * 3);
}

// Who is late finds nothing to do, and touches nothing of a call that has returned.
TEST(Workers, DoNotBeginLate) {
  for (int i = 0; i < 1000; ++i) {
    auto runs = std::make_unique<std::atomic<int>>(0);
    runBeside(3, [&] { ++*runs; });
    int atReturn = *runs;
    if (i % 100 == 0)
      std::this_thread::yield();
    EXPECT_EQ(*runs, atReturn);
    EXPECT_GE(atReturn, 1);
  }
}

// A forked process has none of its parent's threads.
TEST(Workers, BehindAFork) {
  threadsOf(2);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0)
    _exit(threadsOf(2).size() == 3 ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

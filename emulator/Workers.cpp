//===- Workers.cpp --------------------------------------------------------===//

#include "emulator/Workers.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <pthread.h>

namespace {

class Worker {
public:
  Worker() : thread([this] { serve(); }) {}
  ~Worker() {
    set(State::Ended, nullptr);
    thread.join();
  }
  Worker(const Worker &) = delete;

  void start(const std::function<void()> &work) { set(State::Called, &work); }
  /// Returns when it is done, or has not begun and will not.
  void end() {
    std::unique_lock lock(mutex);
    if (state == State::Called)
      state = State::Idle;
    changed.wait(lock, [this] { return state == State::Idle; });
  }

private:
  enum class State { Idle, Called, Busy, Ended };
  std::mutex mutex;
  std::condition_variable changed;
  State state = State::Idle;
  const std::function<void()> *work = nullptr;
  std::thread thread; // last: it begins with the rest in place

  void set(State next, const std::function<void()> *nextWork) {
    std::lock_guard lock(mutex);
    state = next;
    work = nextWork;
    changed.notify_all();
  }

  void serve() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return state != State::Idle; });
      if (state == State::Ended)
        return;
      state = State::Busy;
      lock.unlock();
      (*work)();
      lock.lock();
      state = State::Idle;
      changed.notify_all();
    }
  }
};

/// Those that nobody uses.
class Idle {
public:
  static Idle &all() {
    static Idle idle;
    return idle;
  }

  std::unique_ptr<Worker> take() {
    std::lock_guard lock(mutex);
    if (workers.empty())
      return std::make_unique<Worker>();
    std::unique_ptr<Worker> last = std::move(workers.back());
    workers.pop_back();
    return last;
  }
  void give(std::unique_ptr<Worker> worker) {
    std::lock_guard lock(mutex);
    workers.push_back(std::move(worker));
  }

private:
  std::mutex mutex;
  std::vector<std::unique_ptr<Worker>> workers;

  Idle() {
    // A forked process has none of the threads, and cannot join them.
    pthread_atfork([] { all().mutex.lock(); }, [] { all().mutex.unlock(); },
                   [] {
                     for (std::unique_ptr<Worker> &gone : all().workers)
                       gone.release();
                     all().workers.clear();
                     all().mutex.unlock();
                   });
  }
};

} // namespace

void kvc::rt::runBeside(unsigned others, const std::function<void()> &work) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (unsigned i = 0; i < others; ++i) {
    workers.push_back(Idle::all().take());
    workers.back()->start(work);
  }
  work();
  for (std::unique_ptr<Worker> &worker : workers) {
    worker->end();
    Idle::all().give(std::move(worker));
  }
}

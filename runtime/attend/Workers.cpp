//===- Workers.cpp - numbered work on several threads ---------------------===//

#include "runtime/attend/Workers.h"

#include <algorithm>
#include <atomic>

#include <pthread.h>

using namespace kvc::rt;

namespace {

struct Share {
  uint64_t count;
  void *context;
  void (*work)(void *, uint64_t);
  std::atomic<uint64_t> next{0};

  void run() {
    for (uint64_t i; (i = next.fetch_add(1)) < count;)
      work(context, i);
  }
};

void *runShare(void *share) {
  static_cast<Share *>(share)->run();
  return nullptr;
}

} // namespace

void kvc::rt::runNumbered(uint64_t count, unsigned threads, void *context,
                          void (*work)(void *, uint64_t)) {
  constexpr unsigned most = 256;
  threads = unsigned(std::min<uint64_t>({threads, most, count}));
  Share share{count, context, work};
  // std::thread would allocate. Where no thread can be had, fewer do the work.
  pthread_t others[most];
  unsigned started = 0;
  while (started + 1 < threads &&
         pthread_create(&others[started], nullptr, runShare, &share) == 0)
    ++started;
  share.run();
  for (unsigned i = 0; i < started; ++i)
    pthread_join(others[i], nullptr);
}

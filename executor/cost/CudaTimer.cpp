//===- CudaTimer.cpp ------------------------------------------------------===//

#include "executor/cost/CudaTimer.h"

#include <algorithm>

using namespace kvc::rt;

Times Times::of(std::vector<double> seconds) {
  if (seconds.empty())
    return {};
  std::sort(seconds.begin(), seconds.end());
  size_t last = seconds.size() - 1;
  return {seconds[last / 2], seconds[last * 95 / 100]};
}

CudaTimer::CudaTimer(int ordinal)
    : context(ordinal), driver(context.driver), ordinal(ordinal) {
  CudaContext::Current current(context);
  driver.check(driver.cuStreamCreate(&cudaStream, cudaNonBlocking),
               "cuStreamCreate");
}

CudaTimer::~CudaTimer() {
  CudaContext::Current current(context, CudaContext::Current::Use::Release);
  for (CUevent event : marks)
    driver.cuEventDestroy_v2(event);
  driver.cuStreamDestroy_v2(cudaStream);
}

std::string CudaTimer::deviceName() const {
  char name[256] = "";
  CUdevice device = 0;
  driver.check(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  driver.check(driver.cuDeviceGetName(name, sizeof name, device),
               "cuDeviceGetName");
  return name;
}

int CudaTimer::driverVersion() const {
  int version = 0;
  driver.check(driver.cuDriverGetVersion(&version), "cuDriverGetVersion");
  return version;
}

void CudaTimer::mark() {
  CudaContext::Current current(context);
  CUevent event = nullptr;
  driver.check(driver.cuEventCreate(&event, 0), "cuEventCreate");
  marks.push_back(event);
  driver.check(driver.cuEventRecord(event, cudaStream), "cuEventRecord");
}

std::vector<double> CudaTimer::take() {
  wait();
  CudaContext::Current current(context);
  std::vector<double> seconds;
  for (size_t i = 1; i < marks.size(); ++i) {
    float milliseconds = 0;
    driver.check(
        driver.cuEventElapsedTime(&milliseconds, marks[i - 1], marks[i]),
        "cuEventElapsedTime");
    seconds.push_back(milliseconds * 1e-3);
  }
  for (CUevent event : marks)
    driver.cuEventDestroy_v2(event);
  marks.clear();
  return seconds;
}

void CudaTimer::wait() const {
  CudaContext::Current current(context);
  driver.check(driver.cuStreamSynchronize(cudaStream), "cuStreamSynchronize");
}

std::vector<double> CudaTimer::timeLaunches(const std::vector<Work> &works,
                                            uint32_t repeats) {
  for (uint32_t i = 0; i < repeats; ++i)
    works[i % works.size()]();
  mark();
  for (uint32_t i = 0; i < repeats; ++i) {
    works[i % works.size()]();
    mark();
  }
  return take();
}

CUgraphExec CudaTimer::capture(const Work &work) const {
  CudaContext::Current current(context);
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  driver.check(driver.cuStreamBeginCapture_v2(cudaStream, cudaCaptureThread),
               "cuStreamBeginCapture");
  work();
  driver.check(driver.cuStreamEndCapture(cudaStream, &graph),
               "cuStreamEndCapture");
  CUresult result =
      driver.cuGraphInstantiateWithFlags(&executable, graph, /*flags=*/0);
  driver.cuGraphDestroy(graph);
  driver.check(result, "cuGraphInstantiate");
  return executable;
}

std::vector<double> CudaTimer::timeGraphs(const std::vector<Work> &works,
                                          uint32_t repeats) {
  std::vector<CUgraphExec> graphs;
  std::vector<Work> replays;
  for (const Work &work : works) {
    CUgraphExec graph = graphs.emplace_back(capture(work));
    replays.push_back([this, graph] {
      CudaContext::Current current(context);
      driver.check(driver.cuGraphLaunch(graph, cudaStream), "cuGraphLaunch");
    });
  }
  std::vector<double> seconds = timeLaunches(replays, repeats);
  CudaContext::Current current(context, CudaContext::Current::Use::Release);
  for (CUgraphExec graph : graphs)
    driver.cuGraphExecDestroy(graph);
  return seconds;
}

//===- FakeKernels.cpp - the CUDA driver's modules and launches -----------===//
//
// Names and parameters of kernels are those of the PTX that is loaded; what
// runs is the host kernel of that name, or with KVC_FAKE_CUDA_PTX=1 the PTX.
//
//===----------------------------------------------------------------------===//

#include "kvc/artifact.h"
#include "runtime/base/Failure.h"
#include "executor/cost/kernels/HostKernels.h"
#include "executor/cuda/kernels/HostKernels.h"
#include "runtime/kernels/HostKernels.h"
#include "emulator/Emulator.h"
#include "ptx/Machine.h"
#include "ptx/Parser.h"
#include "test/gpu/FakeQueue.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <regex>
#include <vector>

#include <dlfcn.h>

using namespace kvc::rt;
using namespace kvc::fake;

namespace kvc::rt {
struct CUfunc_st {
  std::string name;
  const kvc::ptx::Kernel *kernel = nullptr; // where the PTX runs
  kvc_host_entry entry = {};      // of the artefact's or the executor's table
  std::vector<size_t> parameters; // bytes of each
  bool waits = false;             // for what is in front of it in the stream
  unsigned mostShared = 48 << 10; // that a launch may give a block
};

struct CUmod_st {
  const char *ptx;
  kvc::ptx::Program program; // where it is what runs
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
};
} // namespace kvc::rt

namespace {

/// The table of host kernels beside a text of PTX.
std::vector<kvc_host_entry> kernelsBeside(const char *ptx) {
  Dl_info info;
  if (dladdr(ptx, &info))
    if (void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)) {
      auto *artifact =
          static_cast<const kvc_artifact *>(dlsym(library, "kvc_artifact"));
      for (uint32_t i = 0; artifact && i < artifact->image_count; ++i)
        if (artifact->images[i].ptx == ptx)
          return {artifact->kernels,
                  artifact->kernels + artifact->kernel_count};
    }
  std::vector<kvc_host_entry> all(kvc::gpu::hostKernels.begin(),
                                  kvc::gpu::hostKernels.end());
  for (const auto &others : {kvc::gpu::viewKernels, kvc::gpu::cardKernels})
    all.insert(all.end(), others.begin(), others.end());
  return all;
}

size_t bytesOf(const std::string &type) {
  return type.ends_with("64") ? 8 : type.ends_with("32") ? 4 : 0;
}

} // namespace

KVC_FAKE cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned,
                            int *, void **) {
  if (CUresult no = refusal())
    return no;
  auto loaded = std::make_unique<CUmod_st>();
  loaded->ptx = static_cast<const char *>(image);
  std::vector<kvc_host_entry> table = kernelsBeside(loaded->ptx);
  // Names and parameters are the PTX's.
  static const std::regex entry(R"(\.entry\s+(\w+)\s*\(([^)]*)\))");
  static const std::regex parameter(
      R"(\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(?:\.ptr[^,]*?\s)?\w+(?:\[(\d+)\])?)");
  std::string text = loaded->ptx;
  if (const char *runs = std::getenv("KVC_FAKE_CUDA_PTX"); runs && *runs == '1')
    loaded->program = kvc::ptx::parse(text);
  for (std::sregex_iterator it(text.begin(), text.end(), entry), end; it != end;
       ++it) {
    auto function = std::make_unique<CUfunc_st>();
    function->name = (*it)[1];
    std::string list = (*it)[2];
    std::string body = it->suffix();
    function->waits =
        body.substr(0, body.find(".entry")).find("griddepcontrol.wait;") !=
        std::string::npos;
    for (std::sregex_iterator p(list.begin(), list.end(), parameter); p != end;
         ++p)
      function->parameters.push_back((*p)[2].matched ? std::stoul((*p)[2])
                                                     : bytesOf((*p)[1]));
    for (const kvc_host_entry &candidate : table)
      if (candidate.name == function->name)
        function->entry = candidate;
    if (auto kernel = loaded->program.kernels.find(function->name);
        kernel != loaded->program.kernels.end())
      function->kernel = &kernel->second;
    loaded->functions[function->name] = std::move(function);
  }
  *module = loaded.release();
  return Success;
}
KVC_FAKE cuModuleUnload(CUmodule module) {
  delete module;
  return Success;
}
KVC_FAKE cuModuleGetFunction(CUfunction *function, CUmodule module,
                             const char *name) {
  auto it = module->functions.find(name);
  if (it == module->functions.end() || !it->second->entry.entry)
    return NotFound;
  *function = it->second.get();
  return Success;
}

KVC_FAKE cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  constexpr int most = 227 << 10;
  if (attribute != 8 || value < 0 || value > most)
    return InvalidValue;
  function->mostShared = unsigned(value);
  return Success;
}

/// 16, or what KVC_FAKE_CUDA_RESIDENT says.
KVC_FAKE cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                     CUfunction function,
                                                     int block, size_t shared) {
  if (block < 1 || block > 1024 || shared > function->mostShared)
    return InvalidValue;
  const char *given = std::getenv("KVC_FAKE_CUDA_RESIDENT");
  *blocks = given ? std::atoi(given) : 16;
  return Success;
}

/// A launch that may begin before the one in front of it has ended, or one that may not.
static CUresult launch(CUfunction function, const CudaLaunchConfig &config,
                       void **parameters, bool early) {
  if (CUresult no = refusal())
    return no;
  auto [x, y, z] = config.grid;
  auto [block, blockY, blockZ] = config.block;
  if (!x || !y || !z || y > 65535 || z > 65535 || block % 32 || block > 1024 ||
      !block || blockY != 1 || blockZ != 1 ||
      config.sharedBytes > function->mostShared)
    return InvalidValue;
  if (function->entry.shared_bytes > (48 << 10) &&
      function->entry.shared_bytes > config.sharedBytes)
    fault(function->name + " needs more shared memory than its launch gives");
  CUstream stream = config.stream;
  if (early && !function->waits)
    fault(function->name + " begins early and waits for nobody");
  if (early && !isBehindKernel(stream))
    fault(function->name + " begins early behind no other launch");
  std::vector<uint64_t> slots;
  for (size_t i = 0; i < function->parameters.size(); ++i) {
    size_t at = slots.size(), bytes = function->parameters[i];
    slots.resize(at + (bytes + 7) / 8);
    std::memcpy(&slots[at], parameters[i], bytes);
  }
  if (const kvc::ptx::Kernel *kernel = function->kernel) {
    kvc::ptx::ParameterBytes bytes(*kernel);
    for (size_t i = 0; i < kernel->parameters.size(); ++i)
      std::memcpy(&bytes.all()[kernel->parameters[i].offset], parameters[i],
                  kernel->parameters[i].bytes);
    enqueue(stream, [=, x = x, y = y, z = z, block = block,
                     sharedBytes = config.sharedBytes]() mutable {
      static uint64_t seed = 1;
      try {
        kvc::ptx::run(*kernel, {{x, y, z}, block, early, sharedBytes},
                      bytes.all(), kvc::ptx::GlobalView({}), 0, ++seed);
      } catch (const Failure &failure) {
        fault(failure.what());
      }
      ran(kernel->name);
    });
    countLaunch(stream, early);
    return Success;
  }
  kvc_host_entry entry = function->entry;
  std::string name = function->name;
  enqueue(stream, [=, x = x, y = y, z = z, block = block] {
    static uint64_t seed = 1;
    try {
      emulate({name, entry.entry, {x, y, z}, block, entry.shared_bytes},
              slots.data(), 0, ++seed);
    } catch (const Failure &failure) {
      fault(failure.what());
    }
    ran(name);
  });
  countLaunch(stream, early);
  return Success;
}

KVC_FAKE cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z,
                        unsigned block, unsigned blockY, unsigned blockZ,
                        unsigned shared, CUstream stream, void **parameters,
                        void **extra) {
  if (extra)
    return InvalidValue;
  return launch(
      function,
      {{x, y, z}, {block, blockY, blockZ}, shared, stream, nullptr, 0},
      parameters, /*early=*/false);
}

KVC_FAKE cuLaunchKernelEx(const CudaLaunchConfig *config, CUfunction function,
                          void **parameters, void **extra) {
  // Of all attributes we know the one that the runtime uses.
  const CudaLaunchAttribute *attribute = config->attributes;
  if (extra || config->attributeCount != 1 || attribute->id != 6 ||
      attribute->allowed != 1)
    return InvalidValue;
  return launch(function, *config, parameters, /*early=*/true);
}

//===- Seal.h - whether a library is as kvc-opt wrote it ------------------===//

#ifndef KVC_RUNTIME_PLAN_SEAL_H
#define KVC_RUNTIME_PLAN_SEAL_H

#include <string>

namespace kvc::rt {

/// Throws Failure unless `path` is a whole and undamaged library, by the seal
/// at its end (kvc/artifact.h).
void checkSeal(const std::string &path);

} // namespace kvc::rt

#endif // KVC_RUNTIME_PLAN_SEAL_H

//===- DeviceAttend.h - attention on a GPU --------------------------------===//

#ifndef KVC_RUNTIME_ATTEND_DEVICEATTEND_H
#define KVC_RUNTIME_ATTEND_DEVICEATTEND_H

#include "runtime/attend/AttendCall.h"

namespace kvc::rt {

/// Loads the kernels and returns the workspace of kvc_attend_workspace.
size_t deviceWorkspaceBytes(const AttendCall &call);

/// Enqueues. Throws Failure where the call is wrong; allocates nothing where the kernels
/// are loaded.
void attendOnDevice(const AttendCall &call);

} // namespace kvc::rt

#endif // KVC_RUNTIME_ATTEND_DEVICEATTEND_H

//===- KVC.td - the kvc dialect, umbrella ----------------------------------===//
//
// Read in this order: the dialect's one page, its type, enums and attributes, the
// interface through which axes are inferred, the ops of level policy in flow order,
// the ops of level fused.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_TD
#define KVC_TD

include "dialect/KVCDialect.td"
include "dialect/KVCTypes.td"
include "dialect/KVCAttrs.td"
include "dialect/KVCInterfaces.td"
include "dialect/KVCOps.td"
include "dialect/KVCSelectionOps.td"
include "dialect/KVCKernelOps.td"

#endif // KVC_TD

//===- Registers.h - what ptxas makes of a program ------------------------===//

#ifndef KVC_PTX_PROFILE_REGISTERS_H
#define KVC_PTX_PROFILE_REGISTERS_H

#include "ptx/profile/Profiler.h"

namespace kvc::ptx {

/// Assembles a program with the ptxas of PATH for a chip ("sm_90") and returns
/// registers and spills by kernel: nothing where there is no ptxas. Throws Failure
/// where ptxas refuses the program.
std::map<std::string, Assembled> assemble(std::string_view ptx,
                                          const std::string &chip);

/// The same from what `ptxas -v` prints.
std::map<std::string, Assembled> readAssembled(const std::string &printed);

} // namespace kvc::ptx

#endif // KVC_PTX_PROFILE_REGISTERS_H

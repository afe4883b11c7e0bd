//===- Parser.h - PTX text to a program -----------------------------------===//

#ifndef KVC_PTX_PARSER_H
#define KVC_PTX_PARSER_H

#include "ptx/Program.h"

#include <string_view>

namespace kvc::ptx {

/// Reads all kernels of a PTX text. Throws Failure (KVC_UNSUPPORTED) with the
/// line where a directive, an opcode or an operand is not known, and
/// (KVC_BAD_ARTIFACT) where the text is no PTX.
Program parse(std::string_view text);

} // namespace kvc::ptx

#endif // KVC_PTX_PARSER_H

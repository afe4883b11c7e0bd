//===- Boundary.cpp -------------------------------------------------------===//

#include "runtime/base/Boundary.h"

thread_local std::string kvc::rt::lastError;

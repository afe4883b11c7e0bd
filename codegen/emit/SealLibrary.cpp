//===- SealLibrary.cpp - the checksum behind a library --------------------===//

#include "codegen/emit/EmitObject.h"

#include "kvc/artifact.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CRC.h"

std::string kvc::sealLibrary(std::string library) {
  kvc_library_seal seal = {KVC_SEAL_MAGIC,
                           llvm::crc32(llvm::arrayRefFromStringRef(library)),
                           library.size() + sizeof seal};
  library.append(reinterpret_cast<const char *>(&seal), sizeof seal);
  return library;
}

//===- OutputFiles.h - how both programs write their files ----------------===//
//
// A regular file, or one that is not there yet, is written beside its place and
// renamed into it: whole or not at all. A device, a FIFO or a socket is written
// to, never replaced. A symbolic link stays: what it points to is written,
// whether it exists or not.
//
//===----------------------------------------------------------------------===//

#ifndef KVC_SUPPORT_OUTPUTFILES_H
#define KVC_SUPPORT_OUTPUTFILES_H

#include <string>
#include <string_view>
#include <vector>

namespace kvc {

/// Why these files cannot all be written, as far as it can be told before they
/// are: a folder that is missing, a directory in the place of a file, one file
/// under two names, a file that is `read` and would be lost. Empty where nothing is in
/// the way.
std::string checkOutputs(const std::vector<std::string> &paths,
                         const std::vector<std::string> &read);

struct OutputFile {
  std::string path;
  std::vector<std::string_view> parts; // one behind the other
};

/// Writes all files or none. Empty, or why not: one line that names the file. A signal
/// that ends the program in the middle of it leaves no half file.
std::string writeOutputs(const std::vector<OutputFile> &files);

/// To be called first in main: descriptors 0 to 2 are never those of a file
/// that the program opens, also where the caller has closed them.
void reserveStandardDescriptors();

/// To be called in main behind whatever sets signals: a limit on the size of
/// files is an error of the write.
void ignoreFileSizeSignal();

} // namespace kvc

#endif // KVC_SUPPORT_OUTPUTFILES_H

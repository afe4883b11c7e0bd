//===- OutputFiles.cpp - how both programs write their files --------------===//

#include "support/OutputFiles.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <optional>
#include <random>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

struct Place {
  /// Of the file to replace or to make, without links on the way; or of what is
  /// written through.
  std::string path;
  bool through = false;
  bool isStandardOutput = false; // of those that are written through
  mode_t mode = 0;               // of the file to replace; 0: there is none
};

std::string cannotWrite(const std::string &path, int code) {
  return "cannot write " + (path.empty() ? "''" : path) + ": " +
         std::strerror(code);
}

bool sameFile(const struct stat &a, const struct stat &b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

std::optional<std::string> realPath(const std::string &path) {
  char *real = realpath(path.c_str(), nullptr);
  if (!real)
    return std::nullopt;
  std::string result = real;
  std::free(real);
  return result;
}

/// Where links lead that end at nothing; 0 or the system's reason.
int followLinks(std::string &path) {
  for (int hops = 0; hops < 40; ++hops) {
    std::array<char, PATH_MAX> target;
    ssize_t length = readlink(path.c_str(), target.data(), target.size());
    if (length < 0)
      return errno == EINVAL || errno == ENOENT ? 0 : errno;
    std::string_view text(target.data(), size_t(length));
    size_t slash = path.rfind('/');
    path = text.starts_with('/') || slash == std::string::npos
               ? std::string(text)
               : path.substr(0, slash + 1) + std::string(text);
  }
  return ELOOP;
}

/// 0 or the system's reason.
int resolve(const std::string &path, Place &place) {
  struct stat info, other;
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode))
      return EISDIR;
    place.path = path;
    place.through = true;
    // Standard output by a name of its own, /dev/stdout or the name that it was
    // redirected to: what is there already stays, and sockets cannot be opened.
    place.isStandardOutput = !S_ISCHR(info.st_mode) &&
                             fstat(STDOUT_FILENO, &other) == 0 &&
                             sameFile(info, other);
    if (place.isStandardOutput || !S_ISREG(info.st_mode))
      return 0;
    std::optional<std::string> real = realPath(path);
    // A file may have lost its name and still be open: /proc/N/fd shows it.
    if (!real || stat(real->c_str(), &other) != 0 || !sameFile(info, other))
      return 0;
    // A rename would not ask.
    if (access(real->c_str(), W_OK) != 0)
      return errno;
    place.path = *real;
    place.through = false;
    place.mode = info.st_mode & 07777;
    return 0;
  }
  if (errno != ENOENT)
    return errno;
  std::string name = path;
  if (int code = followLinks(name))
    return code;
  size_t slash = name.rfind('/');
  std::string base = slash == std::string::npos ? name : name.substr(slash + 1);
  if (base.empty())
    return name.empty() ? ENOENT : EISDIR;
  std::optional<std::string> folder =
      realPath(slash == std::string::npos ? "." : name.substr(0, slash + 1));
  if (!folder)
    return errno;
  place.path = *folder + "/" + base;
  return 0;
}

/// Empty, or what is wrong.
std::string resolveAll(const std::vector<std::string> &paths,
                       std::vector<Place> &places) {
  std::map<std::string, std::string> taken;
  for (const std::string &path : paths) {
    if (int code = resolve(path, places.emplace_back()))
      return cannotWrite(path, code);
    const Place &place = places.back();
    if (place.through)
      continue;
    auto [it, isNew] = taken.emplace(place.path, path);
    if (!isNew)
      return "outputs must be different files, got " + it->second + " and " +
             path;
  }
  return "";
}

/// 0 or the system's reason. Closes the descriptor.
int writeAndClose(int descriptor, const std::vector<std::string_view> &parts) {
  int code = 0;
  for (std::string_view text : parts)
    while (!text.empty() && !code) {
      ssize_t count = write(descriptor, text.data(), text.size());
      if (count >= 0)
        text.remove_prefix(size_t(count));
      else if (errno != EINTR)
        code = errno;
    }
  // Some file systems tell only now that there was no room.
  if (close(descriptor) != 0 && !code && errno != EINTR)
    code = errno;
  return code;
}

constexpr std::array ending = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
std::array<struct sigaction, ending.size()> before;
std::atomic<const std::vector<std::string> *> beingWritten;

extern "C" void removeHalfFiles(int signal) {
  int code = errno;
  if (const auto *names = beingWritten.load())
    for (const std::string &name : *names)
      unlink(name.c_str());
  // Then what would have happened without us: as a rule, the end.
  for (size_t i = 0; i < ending.size(); ++i)
    if (ending[i] == signal)
      sigaction(signal, &before[i], nullptr);
  raise(signal);
  errno = code;
}

/// The files that are being written, under names that nobody else makes.
class HalfFiles {
public:
  explicit HalfFiles(const std::vector<Place> &places) {
    std::random_device random;
    for (const Place &place : places) {
      std::string folder = place.path.substr(0, place.path.rfind('/') + 1);
      names.push_back(place.through
                          ? ""
                          : folder + ".kvc-" + std::to_string(random()) + "-" +
                                std::to_string(getpid()) + ".part");
    }
    // A handler in another thread may still read the list when this one is
    // done with it.
    static std::list<std::vector<std::string>> all;
    all.push_back(names);
    beingWritten = &all.back();
    for (size_t i = 0; i < ending.size(); ++i) {
      struct sigaction action = {};
      sigaction(ending[i], nullptr, &before[i]);
      if (before[i].sa_handler == SIG_IGN)
        continue;
      action.sa_handler = removeHalfFiles;
      sigaction(ending[i], &action, nullptr);
    }
  }
  ~HalfFiles() {
    for (const std::string &name : names)
      if (!name.empty())
        unlink(name.c_str());
    for (size_t i = 0; i < ending.size(); ++i)
      sigaction(ending[i], &before[i], nullptr);
    beingWritten = nullptr;
  }
  HalfFiles(const HalfFiles &) = delete;

  std::vector<std::string> names; // empty: there is none, or none any more
};

int openThrough(const Place &place) {
  return place.isStandardOutput
             ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
             : open(place.path.c_str(),
                    O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);
}

} // namespace

std::string kvc::checkOutputs(const std::vector<std::string> &paths,
                              const std::vector<std::string> &read) {
  std::vector<Place> places;
  if (std::string wrong = resolveAll(paths, places); !wrong.empty())
    return wrong;
  for (const std::string &input : read) {
    Place from;
    if (resolve(input, from)) // whoever reads it says so
      continue;
    for (size_t i = 0; i < places.size(); ++i)
      if (!places[i].through && places[i].path == from.path)
        return "outputs must not be files that are read, got " + paths[i];
  }
  return "";
}

std::string kvc::writeOutputs(const std::vector<OutputFile> &files) {
  std::vector<std::string> paths;
  for (const OutputFile &file : files)
    paths.push_back(file.path);
  std::vector<Place> places;
  if (std::string wrong = resolveAll(paths, places); !wrong.empty())
    return wrong;
  HalfFiles half(places);
  // What can be taken back comes first.
  for (bool through : {false, true})
    for (size_t i = 0; i < files.size(); ++i) {
      if (places[i].through != through)
        continue;
      int descriptor =
          through ? openThrough(places[i])
                  : open(half.names[i].c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor >= 0 && places[i].mode)
        fchmod(descriptor, places[i].mode);
      int code =
          descriptor < 0 ? errno : writeAndClose(descriptor, files[i].parts);
      if (code)
        return cannotWrite(paths[i], code);
    }
  for (size_t i = 0; i < files.size(); ++i) {
    if (places[i].through)
      continue;
    if (rename(half.names[i].c_str(), places[i].path.c_str()) != 0)
      return cannotWrite(paths[i], errno);
    half.names[i].clear();
  }
  return "";
}

void kvc::reserveStandardDescriptors() {
  // Opened against their direction: using them stays an error.
  for (int descriptor : {0, 1, 2})
    if (fcntl(descriptor, F_GETFD) < 0)
      open("/dev/null", descriptor ? O_RDONLY : O_WRONLY);
}

void kvc::ignoreFileSizeSignal() { signal(SIGXFSZ, SIG_IGN); }

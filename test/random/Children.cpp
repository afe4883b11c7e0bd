//===- Children.cpp - trials in processes of their own --------------------===//

#include "test/random/Children.h"

#include "runtime/base/Format.h"
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace kvc;
using namespace kvc::random;
using Json = nlohmann::json;

static double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Children::Child {
  Task task;
  pid_t process;
  int pipe;
  double started;
  /// "> phase" lines, then the verdict.
  std::string said;
};

Children::Children(const TrialOptions &options, unsigned jobs, double seconds)
    : options(options), jobs(jobs), seconds(seconds) {}
Children::~Children() = default;

static void writeAll(int file, const std::string &text) {
  size_t done = 0;
  while (done < text.size()) {
    ssize_t n = write(file, text.data() + done, text.size() - done);
    if (n <= 0)
      return;
    done += size_t(n);
  }
}

static std::string pack(const Verdict &v) {
  return Json{{"kind", v.kind},          {"message", v.message},
              {"ops", v.cells.ops},      {"pairs", v.cells.pairs},
              {"rows", v.cells.ofRows},  {"compile", v.compileSeconds},
              {"ptx", v.ptxSeconds},     {"run", v.runSeconds},
              {"judge", v.judgeSeconds}, {"runs", v.disturbedRuns}}
             .dump(-1, ' ', true, Json::error_handler_t::replace) +
         "\n";
}

static Verdict unpack(const std::string &text) {
  Json json = Json::parse(text);
  Verdict v;
  v.kind = json["kind"];
  v.message = json["message"];
  v.cells.ops = json["ops"].get<std::set<std::string>>();
  v.cells.pairs = json["pairs"].get<std::set<std::string>>();
  v.cells.ofRows = json["rows"].get<std::set<std::string>>();
  v.compileSeconds = json["compile"];
  v.ptxSeconds = json["ptx"];
  v.runSeconds = json["run"];
  v.judgeSeconds = json["judge"];
  v.disturbedRuns = json["runs"];
  return v;
}

std::unique_ptr<Children::Child> Children::start(Task task) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::runtime_error("cannot make a pipe");
  pid_t process = fork();
  if (process == 0) {
    // What a crash has to say of itself is not ours.
    int silence = open("/dev/null", O_WRONLY);
    dup2(silence, 2);
    alarm(unsigned(seconds) + 2); // should the parent be gone
    Verdict verdict =
        tryPolicy(task.policy, task.c, options, [&](const char *phase) {
          writeAll(ends[1], rt::formatted("> {}\n", phase));
        });
    writeAll(ends[1], pack(verdict));
    _exit(0);
  }
  close(ends[1]);
  if (process < 0) {
    close(ends[0]);
    throw std::runtime_error("cannot fork");
  }
  return std::make_unique<Child>(
      Child{std::move(task), process, ends[0], now(), ""});
}

/// What a child has left.
static Verdict verdictOf(const std::string &said, int status, bool late,
                         double seconds) {
  size_t begin = said.find("\n{");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
      begin != std::string::npos)
    return unpack(said.substr(begin + 1));
  size_t last = said.rfind("> ");
  std::string phase = last == std::string::npos
                          ? "start"
                          : said.substr(last + 2, said.size() - last - 3);
  Verdict verdict;
  verdict.kind = (late ? "hang: " : "crash: ") + phase;
  verdict.message =
      late ? rt::formatted("longer than {} s in '{}'\n", seconds, phase)
      : WIFSIGNALED(status)
          ? rt::formatted("signal {} ({}) in '{}'\n", WTERMSIG(status),
                          strsignal(WTERMSIG(status)), phase)
          : rt::formatted("exit {} in '{}'\n", WEXITSTATUS(status), phase);
  return verdict;
}

void Children::run(
    const std::function<bool(Task &)> &next,
    const std::function<void(const Task &, const Verdict &)> &done) {
  std::vector<std::unique_ptr<Child>> running;
  bool more = true;
  while (true) {
    while (more && running.size() < jobs) {
      Task task;
      more = next(task);
      if (more)
        running.push_back(start(std::move(task)));
    }
    if (running.empty())
      return; // no more tasks: to wait for nothing takes as long as it may
    std::vector<pollfd> files;
    for (auto &child : running)
      files.push_back({child->pipe, POLLIN, 0});
    poll(files.data(), files.size(), 200);
    for (size_t i = running.size(); i-- > 0;) {
      Child &child = *running[i];
      bool late = now() - child.started > seconds, over = false;
      if (late)
        kill(child.process, SIGKILL);
      if (files[i].revents) {
        char buffer[65536];
        ssize_t n = read(child.pipe, buffer, sizeof buffer);
        over = n <= 0;
        if (n > 0)
          child.said.append(buffer, size_t(n));
      }
      if (!over && !late)
        continue;
      int status = 0;
      waitpid(child.process, &status, 0);
      close(child.pipe);
      std::unique_ptr<Child> ended = std::move(running[i]);
      running.erase(running.begin() + long(i));
      done(ended->task, verdictOf(ended->said, status, late, seconds));
    }
  }
}

Verdict Children::run(const std::string &policy, const Case &c) {
  Verdict result;
  bool given = false;
  run(
      [&](Task &task) {
        task = {0, policy, c};
        return !std::exchange(given, true);
      },
      [&](const Task &, const Verdict &verdict) { result = verdict; });
  return result;
}
